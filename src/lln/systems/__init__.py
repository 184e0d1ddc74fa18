"""Dynamical systems, one equation a file, and the methods that advance them."""

from lln.systems.advance import perturbed_start, rk4_step, seeded_start, simulate, stepper
from lln.systems.advection_diffusion import AdvectionDiffusion
from lln.systems.base import System, UserSystem
from lln.systems.burgers import Burgers
from lln.systems.fields.advection import Advection
from lln.systems.fields.advection_diffusion_2d import AdvectionDiffusion2D
from lln.systems.fields.allen_cahn import AllenCahn
from lln.systems.fields.burgers_1d import Burgers1D
from lln.systems.fields.burgers_2d import Burgers2D
from lln.systems.fields.diffusion import Diffusion
from lln.systems.fields.fisher_kpp import FisherKPP
from lln.systems.fields.gray_scott import GrayScott
from lln.systems.fields.kdv import KortewegDeVries
from lln.systems.fields.kuramoto_sivashinsky import KuramotoSivashinsky
from lln.systems.fields.spectral import SpectralField
from lln.systems.fields.turbulence import DecayingTurbulence
from lln.systems.fields.wave import Wave
from lln.systems.lorenz import Lorenz
from lln.systems.presets import EVERY_PRESET, FIELD_PRESETS, PRESETS, SYSTEMS, preset
from lln.systems.reaction_diffusion import ReactionDiffusion
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
