"""Closed-form parts of other packages: what a part provides, and the registry that finds parts by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from lln.core.errors import InputError
from lln.core.registry import Registry

Array = NDArray[np.float64]


class ClosedFormPart(nn.Module, ABC):
    """A part of a dense step that is fitted in closed form: features (..., F) -> standardised increments (..., n).

    Everything is float64. The features are those of `lln.step.frame.Frame`; increments are divided by the frame's
    scale. Register a subclass in `PARTS`, or by an entry point in the group "lln.parts".
    """

    @classmethod
    @abstractmethod
    def fit(cls, features: Array, increments: Array, weights: Array | None = None) -> Self:
        """Solve the part.

        Args:
            features: (P, F), one row for each pair of neighbouring states.
            increments: (P, n), standardised.
            weights: weight of each row, (P,); None weighs all rows the same.
        """

    @abstractmethod
    def forward(self, features: Tensor) -> Tensor:
        """The standardised increments, differentiable: (..., F) -> (..., n)."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The float64 or int64 arrays that `from_arrays` rebuilds the part from, by name; all numbers finite."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], features: int, size: int) -> Self:
        """Rebuild the part.

        Args:
            arrays: what `arrays` returned. They may come from any file: raise ValueError if shapes do not fit.
            features: number of features F.
            size: number of coordinates n.
        """


PARTS: Registry[type[ClosedFormPart]] = Registry("closed-form part", "lln.parts", {})


def part_name(part: ClosedFormPart) -> str:
    """The name under which the class of `part` is registered."""
    for name in PARTS:
        if PARTS.get(name) is type(part):
            return name
    raise InputError(
        f"{type(part).__name__} is not a registered closed-form part; call lln.step.parts.PARTS.register(name, class)"
    )
