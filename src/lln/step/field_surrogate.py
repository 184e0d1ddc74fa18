"""A learned step of a field, ready to use: a frame in float64 and the networks that correct it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lln.core.errors import InputError
from lln.core.memory import afford
from lln.models.field import FieldLensNetwork
from lln.step.field_frame import FieldFrame
from lln.step.frame import Array
from lln.step.surrogate import ROLLOUT_COPIES

Correction = Callable[[Tensor], Tensor | None]


@dataclass(frozen=True, eq=False)
class FieldSurrogate:
    """One step of a field: the frame's convolution, and the mean of networks that all points share.

    Attributes:
        frame: units, delay channels, inputs, boundaries, conservation and the linear part.
        members: field networks of one shape; none if the linear part is all there is.
    """

    frame: FieldFrame
    members: tuple[FieldLensNetwork, ...] = ()

    def merged(self) -> None:
        """None: members of several blocks are no single network of larger width, as dense ones are."""

    def rollout(
        self, window: Array, steps: int, inputs: Array | None = None, *, space: Sequence[int] | None = None
    ) -> Array:
        """The states after a window.

        Args:
            window: (..., H, n), oldest first, flat: channels, then space in C order.
            steps: how many.
            inputs: known inputs (..., steps, m), the first for the step that leaves the window; None without inputs.
            space: points of the window's grid, on the domain of training; None is the grid of training. Kernels keep
                their physical extent.

        Returns:
            (..., steps, n) in float64. Not finite from where it diverged; NaN once every start has.
        """
        if window.shape[-2] != self.frame.history:
            raise InputError(f"the model looks at {self.frame.history} states at a time, got {window.shape[-2]}")
        shape = (*window.shape[:-2], steps, window.shape[-1])
        afford(f"a rollout of {steps:,} steps", shape, copies=ROLLOUT_COPIES)
        past = [self.frame.fields(window[..., k, :], space) for k in range(self.frame.history)]
        ratio = self.frame.ratio(space)
        known = None if inputs is None else torch.from_numpy(np.asarray(inputs, dtype=np.float64))
        correct = self.correction(ratio, space)
        states = np.full(shape, np.nan)
        for k in range(steps):
            features = self.frame.feature_fields(past, None if known is None else known[..., k, :])
            past = [*past[1:], past[-1] + self.frame.change(features, correct(features), ratio)]
            states[..., k, :] = self.frame.flat(past[-1])
            if not np.isfinite(states[..., k, :]).all(axis=-1).any():
                break
        return states

    def correction(self, ratio: Sequence[float] | None = None, space: Sequence[int] | None = None) -> Correction:
        """The members' mean as a function of features, in float64; None where there is nothing to add."""
        if not self.members or not self.frame.gain.any():
            return lambda _: None
        for member in self.members:
            member.eval()
        weight = self.members[0].readout.weight
        static = self._static(space, weight)

        def correct(features: Tensor) -> Tensor:
            with torch.no_grad():
                rows = features.to(weight.device, weight.dtype)
                outs = [member(rows, static=static, ratio=ratio) for member in self.members]
                return torch.stack([out.double() for out in outs]).mean(dim=0).cpu()

        return correct

    def extent(self, spacing: Sequence[float]) -> tuple[float, ...]:
        """Physical width of a kernel along each axis: the widest of the linear part's and the networks'."""
        sizes = [self.frame.kernel, *(member.kernel for member in self.members[:1])]
        return tuple((max(axis) - 1) * step for axis, step in zip(zip(*sizes, strict=True), spacing, strict=True))

    def _static(self, space: Sequence[int] | None, like: Tensor) -> Tensor | None:
        if self.frame.static is None:
            return None
        if space is not None and tuple(space) != self.frame.space:
            raise InputError("a model with static fields rolls out on the grid of training alone; give no other space")
        return torch.from_numpy(self.frame.static).to(like.device, like.dtype)
