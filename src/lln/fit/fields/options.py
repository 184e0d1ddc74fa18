"""Choices that only fields on a grid have, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lln.core.errors import choice
from lln.step.field_frame import CONSERVE
from lln.step.frame import Array


@dataclass(frozen=True, eq=False)
class FieldOptions:
    """Choices that only fields have; None and "auto" leave them to the recipe.

    Attributes:
        boundary: for all sides, for each axis, or (low, high) for an axis; "auto" reads it off the data.
        conserve: "none"; "mean" holds the mean of every channel; "flux" lets only fluxes between neighbours change a
            field; "auto" holds the mean where the data does.
        kernel: points of the networks' convolutions, one number or one for each axis.
        linear_kernel: of the linear part; None tries a few.
        blocks: of a network.
        hidden: channels between blocks.
        noise: standard deviation of the noise on the inputs of training, in units of their spread; 0 for none, None
            chooses it on held-out rollouts. It teaches networks to damp what the data does not contain.
        static: fixed fields (*space, s), or one (*space), that the networks also see, in any units.
    """

    boundary: str | Sequence[str | Sequence[str]] = "auto"
    conserve: str = "auto"
    kernel: int | Sequence[int] | None = None
    linear_kernel: int | Sequence[int] | None = None
    blocks: int | None = None
    hidden: int | None = None
    noise: float | None = None
    static: Array | None = None

    def __post_init__(self) -> None:
        """Check what can be checked without data."""
        choice("conserve", self.conserve, ("auto", *CONSERVE))
