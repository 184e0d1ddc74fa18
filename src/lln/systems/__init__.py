"""Dynamical systems, one equation a file, and the methods that advance them."""

from lln.systems.advance import perturbed_start, rk4_step, seeded_start, simulate, stepper
from lln.systems.advection import Advection
from lln.systems.advection_diffusion import AdvectionDiffusion
from lln.systems.advection_diffusion_2d import AdvectionDiffusion2D
from lln.systems.allen_cahn import AllenCahn
from lln.systems.base import System, UserSystem
from lln.systems.burgers import Burgers
from lln.systems.burgers_1d import Burgers1D
from lln.systems.burgers_2d import Burgers2D
from lln.systems.diffusion import Diffusion
from lln.systems.fisher_kpp import FisherKPP
from lln.systems.gray_scott import GrayScott
from lln.systems.kdv import KortewegDeVries
from lln.systems.kuramoto_sivashinsky import KuramotoSivashinsky
from lln.systems.lorenz import Lorenz
from lln.systems.presets import EVERY_PRESET, FIELD_PRESETS, PRESETS, SYSTEMS, preset
from lln.systems.reaction_diffusion import ReactionDiffusion
from lln.systems.spectral import SpectralField
from lln.systems.spring_chain import SpringChain
from lln.systems.turbulence import DecayingTurbulence
from lln.systems.wave import Wave

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
