"""A closed form with all its settings, and how it did on held-out rollouts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lln.fit.choice.scores import RolloutErrors
from lln.fit.flows.search import FlowChoice

WIDEST = 1200  # rays of a lens network


@dataclass(frozen=True)
class ClosedChoice:
    """One closed form with all that is needed to solve it again.

    Attributes:
        kind: "polynomial", "flow", "lens", or the name of a part of another package.
        history: states that it looks at.
        ridge: relative to the largest squared singular value.
        degree: of a polynomial or of a vector field.
        scale: of the embedding of a lens network.
        width: rays of a lens network.
        lags: whether the embedding is drawn for past states rather than for differences between them.
        factors: of trained lenses (see `projection`); none where lenses are as drawn.
        flow: the other settings of a vector field.
    """

    kind: str
    history: int
    ridge: float
    degree: int = 0
    scale: float = 0.0
    width: int = 0
    lags: bool = False
    factors: tuple[float, ...] = ()
    flow: FlowChoice | None = None

    def record(self) -> dict[str, Any]:
        """As plain values, for the report."""
        common: dict[str, Any] = {"part": self.kind, "history": self.history, "ridge": self.ridge}
        if self.kind == "lens":
            lens = {**common, "scale": self.scale, "width": self.width, "lags": self.lags}
            return {**lens, "trained": True} if self.factors else lens
        if self.flow is not None:
            return {**common, **self.flow.record()}
        return {**common, "degree": self.degree} if self.degree else common

    @property
    def size(self) -> int:
        """A rough order of complexity: polynomials, lens networks, parts of other packages; then the history."""
        fewer = 0 if self.flow is None else 2 * bool(self.flow.radius) + bool(self.flow.threshold)
        return (self.width or 10 * self.degree or 10 * WIDEST) + self.history - fewer


@dataclass(frozen=True, eq=False)
class Scored:
    """A closed form and its held-out rollouts."""

    choice: ClosedChoice
    errors: RolloutErrors
