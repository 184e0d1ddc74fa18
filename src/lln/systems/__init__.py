"""Dynamical systems, one class for each equation, and the methods that advance them."""

from lln.systems.advance import perturbed_start, rk4_step, seeded_start, simulate, stepper
from lln.systems.base import System, UserSystem
from lln.systems.fields.linear import Advection, AdvectionDiffusion2D, Diffusion, Wave
from lln.systems.fields.lines import Burgers1D, FisherKPP, KortewegDeVries, KuramotoSivashinsky
from lln.systems.fields.planes import AllenCahn, Burgers2D, DecayingTurbulence, GrayScott
from lln.systems.fields.spectral import SpectralField
from lln.systems.lorenz import Lorenz
from lln.systems.periodic import AdvectionDiffusion, Burgers, ReactionDiffusion
from lln.systems.presets import EVERY_PRESET, FIELD_PRESETS, PRESETS, SYSTEMS, preset
from lln.systems.spring_chain import SpringChain

__all__ = [
    "EVERY_PRESET",
    "FIELD_PRESETS",
    "PRESETS",
    "SYSTEMS",
    "Advection",
    "AdvectionDiffusion",
    "AdvectionDiffusion2D",
    "AllenCahn",
    "Burgers",
    "Burgers1D",
    "Burgers2D",
    "DecayingTurbulence",
    "Diffusion",
    "FisherKPP",
    "GrayScott",
    "KortewegDeVries",
    "KuramotoSivashinsky",
    "Lorenz",
    "ReactionDiffusion",
    "SpectralField",
    "SpringChain",
    "System",
    "UserSystem",
    "Wave",
    "perturbed_start",
    "preset",
    "rk4_step",
    "seeded_start",
    "simulate",
    "stepper",
]
