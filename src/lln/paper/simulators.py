"""The simulators behind the paper's ten systems, as far as its printed numbers pin them.

Lorenz is identified. For the other four families the paper prints no constants; what stands here is the best setting
that a search found (see `lln.paper.identify`), and not the paper's own. `lln.systems.PRESETS` keep the package's own
constants under the same names; the first reproduction used those.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from lln.core.errors import choice
from lln.systems import AdvectionDiffusion, Burgers, Lorenz, ReactionDiffusion, SpringChain
from lln.systems.base import Array, System

# A term of a start: amplitude, "sin" or "cos", number of waves on the unit interval (halves are allowed).
Terms = tuple[tuple[float, str, float], ...]


def waves(terms: Terms, u: Array) -> Array:
    """The sum of `terms` at the points `u` of the unit interval, (n,)."""
    shapes = {"sin": np.sin, "cos": np.cos}
    parts = [amplitude * shapes[kind](2.0 * math.pi * number * u) for amplitude, kind, number in terms]
    total: Array = np.sum(parts, axis=0)
    return total


@dataclass(frozen=True)
class Restarted(System):
    """A field of the package with another start.

    Attributes:
        base: the equation and its constants.
        dt: time step, that of `base`.
        terms: the start, a sum of waves.
        closed: whether the start is taken on ``linspace(0, L, n)``, end point included, as a script may do it, while
            the equation is periodic with spacing L / n.
    """

    family: ClassVar[str] = "restarted"

    base: System
    dt: float
    terms: Terms
    closed: bool = False

    @property
    def size(self) -> int:
        """Number of points n."""
        return self.base.size

    @property
    def name(self) -> str:
        """That of the field."""
        return self.base.name

    def rhs(self, state: Array) -> Array:
        """That of the field: (..., n) -> (..., n)."""
        return self.base.rhs(state)

    def start(self) -> Array:
        """The sum of waves, (n,)."""
        return waves(self.terms, np.arange(self.size) / (self.size - 1 if self.closed else self.size))

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Those of the field."""
        return self.base.coordinates

    @property
    def symbols(self) -> Mapping[str, float]:
        """Those of the field."""
        return self.base.symbols


@dataclass(frozen=True)
class PinnedChain(SpringChain):
    """Unit masses in a row with unit springs between neighbours and to their own places, both ends free.

    Equation: ``q_i' = p_i``, ``p_i' = q_{i+1} - 2 q_i + q_{i-1} - q_i`` with ``q_{-1} = q_0`` and ``q_n = q_{n-1}``.

    State: (q_0 .. q_{n-1}, p_0 .. p_{n-1}), 2n numbers.

    What the solution does: from a start of one sign all masses swing almost in phase, with a slow beat. It is linear.

    When it breaks: RK4 is stable for dt below 1.26 (2.83 over the highest frequency, sqrt(5)).

    Args:
        masses: number of masses n.
        dt: time step.
    """

    dt: float = 0.014142

    def rhs(self, state: Array) -> Array:
        """f(q, p): (..., 2n) -> (..., 2n)."""
        q, p = state[..., : self.masses], state[..., self.masses :]
        left = np.concatenate([q[..., :1], q[..., :-1]], axis=-1)
        right = np.concatenate([q[..., 1:], q[..., -1:]], axis=-1)
        return np.concatenate([p, right - 3.0 * q + left], axis=-1)

    def start(self) -> Array:
        """Displacements sin(pi u), momenta cos(3 pi u) / 10, with u = (i + 1) / (n + 1)."""
        u = np.arange(1, self.masses + 1) / (self.masses + 1)
        return np.concatenate([waves(((1.0, "sin", 0.5),), u), waves(((0.1, "cos", 1.5),), u)])

    def energy(self, state: Array) -> Array:
        """Kinetic and elastic energy, (..., 2n) -> (...)."""
        q, p = state[..., : self.masses], state[..., self.masses :]
        total: Array = 0.5 * (p**2 + q**2).sum(-1) + 0.5 * (np.diff(q, axis=-1) ** 2).sum(-1)
        return total


def _fields(points: int) -> dict[str, System]:
    burgers = Burgers(points=points, nu=0.0316, dt=0.003)
    transport = AdvectionDiffusion(points=points, c=0.7, nu=0.05, dt=0.002)
    reaction = ReactionDiffusion(points=points, nu=0.001, dt=0.002)
    wave = ((0.1885, "sin", 1.0), (0.09425, "sin", 2.0), (0.02356, "cos", 4.0))
    phases = ((0.6, "sin", 1.0), (0.45, "cos", 2.0), (0.06, "sin", 4.0))
    return {
        f"burgers-{points}": Restarted(burgers, burgers.dt, wave, closed=True),
        f"advecdiff-{points}": Restarted(transport, transport.dt, ((1.0, "sin", 1.0), (0.6, "cos", 3.0))),
        f"reactiondiff-{points}": Restarted(reaction, reaction.dt, phases),
    }


SIMULATORS: dict[str, System] = {
    "lorenz-24": Lorenz(rho=24.0),
    "lorenz-28": Lorenz(rho=28.0),
    "springchain-32": PinnedChain(32),
    "springchain-48": PinnedChain(48),
    **{
        name: _fields(points)[name]
        for family in ("burgers", "advecdiff", "reactiondiff")
        for points in (32, 48)
        for name in (f"{family}-{points}",)
    },
}


def simulator(name: str) -> System:
    """The simulator of one of the paper's systems."""
    return SIMULATORS[choice("system", name, SIMULATORS)]


def perturbed(start: Array, seed: int, relative: float) -> Array:
    """A start with noise: ``x0 + relative * RMS(x0) * N(0, 1)``, drawn from a torch generator with `seed`."""
    noise = torch.randn(len(start), generator=torch.Generator().manual_seed(seed)).double().numpy()
    moved: Array = start + relative * np.sqrt(np.mean(start**2)) * noise
    return moved
