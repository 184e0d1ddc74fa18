"""The ten settings that the paper studies, by name."""

from __future__ import annotations

from lln.core.errors import choice
from lln.systems.advection_diffusion import AdvectionDiffusion
from lln.systems.base import System
from lln.systems.burgers import Burgers
from lln.systems.lorenz import Lorenz
from lln.systems.reaction_diffusion import ReactionDiffusion
from lln.systems.spring_chain import SpringChain

PRESETS: dict[str, System] = {
    "lorenz-24": Lorenz(rho=24.0),
    "lorenz-28": Lorenz(rho=28.0),
    "springchain-32": SpringChain(masses=32),
    "springchain-48": SpringChain(masses=48),
    "burgers-32": Burgers(points=32),
    "burgers-48": Burgers(points=48),
    "advecdiff-32": AdvectionDiffusion(points=32),
    "advecdiff-48": AdvectionDiffusion(points=48),
    "reactiondiff-32": ReactionDiffusion(points=32),
    "reactiondiff-48": ReactionDiffusion(points=48),
}


def preset(name: str) -> System:
    """The system called `name`.

    >>> preset("lorenz-28").symbols["rho"]
    28.0
    """
    return PRESETS[choice("system", name, PRESETS)]
