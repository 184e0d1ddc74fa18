"""Systems by name: the ten settings that the paper studies, and fields to learn from."""

from __future__ import annotations

from lln.core.errors import choice
from lln.core.registry import Registry
from lln.systems.base import System
from lln.systems.fields.linear import Advection, AdvectionDiffusion2D, Diffusion, Wave
from lln.systems.fields.lines import Burgers1D, FisherKPP, KortewegDeVries, KuramotoSivashinsky
from lln.systems.fields.planes import AllenCahn, Burgers2D, DecayingTurbulence, GrayScott
from lln.systems.fields.spectral import SpectralField
from lln.systems.lorenz import Lorenz
from lln.systems.periodic import AdvectionDiffusion, Burgers, ReactionDiffusion
from lln.systems.spring_chain import SpringChain

PRESETS: dict[str, System] = {
    system.name: system
    for system in (
        Lorenz(rho=24.0),
        Lorenz(rho=28.0),
        *(kind(size) for kind in (SpringChain, Burgers, AdvectionDiffusion, ReactionDiffusion) for size in (32, 48)),
    )
}

FIELD_PRESETS: dict[str, SpectralField] = {
    system.name: system
    for system in (
        Advection(),
        Diffusion(),
        Wave(),
        Burgers1D(),
        KortewegDeVries(),
        KuramotoSivashinsky(points=64, length=22.0),
        KuramotoSivashinsky(),
        FisherKPP(),
        AdvectionDiffusion2D(),
        Burgers2D(),
        AllenCahn(),
        GrayScott(),
        DecayingTurbulence(),
    )
}

EVERY_PRESET: dict[str, System] = {**PRESETS, **FIELD_PRESETS}
# A system of another package is an entry point in the group "lln.systems" whose value is a `System`.
SYSTEMS: Registry[System] = Registry("system", "lln.systems", EVERY_PRESET)


def preset(name: str) -> System:
    """The system called `name`: one of the paper (`PRESETS`), a field (`FIELD_PRESETS`) or one of another package.

    >>> preset("lorenz-28").symbols["rho"]
    28.0
    >>> preset("gray-scott-64x64").channels
    ('u', 'v')
    """
    return SYSTEMS.get(choice("system", name, SYSTEMS.names()))
