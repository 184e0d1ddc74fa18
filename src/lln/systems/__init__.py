"""Dynamical systems, one equation a file, and the Runge-Kutta method that advances them."""

from lln.systems.advection_diffusion import AdvectionDiffusion
from lln.systems.base import System, UserSystem
from lln.systems.burgers import Burgers
from lln.systems.integrate import rk4_step, simulate
from lln.systems.lorenz import Lorenz
from lln.systems.presets import PRESETS, preset
from lln.systems.reaction_diffusion import ReactionDiffusion
from lln.systems.spring_chain import SpringChain
from lln.systems.starts import perturbed_start

__all__ = [
    "PRESETS",
    "AdvectionDiffusion",
    "Burgers",
    "Lorenz",
    "ReactionDiffusion",
    "SpringChain",
    "System",
    "UserSystem",
    "perturbed_start",
    "preset",
    "rk4_step",
    "simulate",
]
