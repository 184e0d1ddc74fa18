"""Linear steps of periodic fields, wave by wave: a convolution as wide as the grid.

A convolution multiplies every wave (Fourier mode) by numbers of its own, so each wave is a small regression. Waves that
the data does not have get zeros and stay as they are. Narrow kernels are fitted to the waves that the data has, and may
let others grow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lln.core.errors import InputError
from lln.models.convolution import wrapped
from lln.step.field_frame import FieldFrame
from lln.step.frame import Array, Polynomial


@dataclass(frozen=True, eq=False)
class WaveRegression:
    """Everything that a ridge regression of each wave needs, whatever the ridge."""

    triangle: Tensor  #: R of the rows [features, 1, targets] of each wave, complex, (waves, columns, columns).
    kernel: tuple[int, ...]  #: points of the grid along each axis.
    block: int  #: features F of one point.
    rows: int  #: how many points were seen.
    #: for what is conserved: of which features the mean over space is ignored, (F,), and then there is no offset.
    zero_sum: NDArray[np.bool_] | None = None

    @classmethod
    def of(
        cls,
        batches: Iterable[tuple[Tensor, Tensor, Tensor | None]],
        space: tuple[int, ...],
        zero_sum: NDArray[np.bool_] | None = None,
    ) -> WaveRegression:
        """From batches of features (B, *space, F), targets (B, *space, C) and weights (B,) or None."""
        axes, triangle, block, rows = tuple(range(1, 1 + len(space))), None, 0, 0
        for features, wanted, weights in batches:
            block, rows = features.shape[-1], rows + len(features) * math.prod(space)
            joined = torch.cat(
                (features.double(), torch.ones_like(features[..., :1]).double(), wanted.double()), dim=-1
            )
            if weights is not None:
                joined = joined * weights.double().sqrt().view(-1, *[1] * (joined.ndim - 1))
            waves = torch.fft.fftn(joined, dim=axes, norm="ortho").flatten(1, len(space)).movedim(1, 0)
            stacked = waves if triangle is None else torch.cat((triangle, waves), dim=1)
            triangle = torch.linalg.qr(stacked, mode="r").R
        if triangle is None:
            raise InputError("a convolution cannot be fitted to no pairs at all; give longer trajectories")
        return cls(triangle, space, block, rows, zero_sum)

    def into(self, frame: FieldFrame, ridge: float) -> FieldFrame:
        """The frame with the convolution at this ridge, which counts beside a row's mean square."""
        table, values = self.triangle[:, :, : self.block + 1].clone(), self.triangle[:, :, self.block + 1 :]
        if self.zero_sum is not None:
            table[0, :, : self.block] *= torch.from_numpy(~self.zero_sum)  # the first wave is the mean over space
            table[:, :, self.block] = 0.0
        held = math.sqrt(ridge * self.rows) * torch.eye(self.block, self.block + 1, dtype=table.dtype)
        table = torch.cat((table, held.expand(len(table), -1, -1)), dim=1)
        values = torch.cat((values, values.new_zeros(len(values), self.block, values.shape[2])), dim=1)
        found = torch.linalg.lstsq(table, values, driver="gelsd").solution
        axes = tuple(range(len(self.kernel)))
        taps = torch.fft.ifftn(found[:, : self.block].unflatten(0, self.kernel), dim=axes).real
        matrix = wrapped(taps, self.kernel).movedim(-1, 0).flatten(1).numpy()
        return replace(
            frame, kernel=self.kernel, matrix=matrix, offset=found[0, self.block].real.numpy(), polynomial=None
        )

    def left_over(self, weight: Array, offset: Array, _: Polynomial | None = None) -> Array:
        """Root mean square of what a convolution (C, points * F) and an offset (C,) leave over, (C,)."""
        taps = wrapped(torch.from_numpy(weight).unflatten(1, (*self.kernel, -1)).movedim(0, -1), self.kernel)
        symbol = torch.fft.fftn(taps, dim=tuple(range(len(self.kernel)))).flatten(0, len(self.kernel) - 1)
        known, one, wanted = self.triangle.split([self.block, 1, len(offset)], dim=2)
        residual = wanted - known @ symbol - one * torch.from_numpy(offset)
        return np.asarray(torch.sqrt(residual.abs().square().sum(dim=(0, 1)) / self.rows))
