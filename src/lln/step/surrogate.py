"""A learned step, ready to use: a frame in float64 and the networks that correct it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from lln.core.memory import afford
from lln.models import LensNetwork
from lln.models.base import StateNetwork
from lln.step.frame import Array, Frame

Float32 = NDArray[np.float32]

# What a rollout holds at once on its way to the user: the states, these with their start, and where they are lost.
ROLLOUT_COPIES = 3


@dataclass(frozen=True, eq=False)
class Surrogate:
    """One step of a system: ``x_{k+1} = frame.advance(x_k, f_k, mean over members of member(f_k))``.

    Attributes:
        frame: units, delay coordinates, inputs and the linear part.
        members: networks of one shape, F -> n; none if the linear part is all there is.
    """

    frame: Frame
    members: tuple[StateNetwork, ...] = ()

    def merged(self) -> LensNetwork | None:
        """All lens members as one: the mean of S networks of width h is one network of width S h.

        Rays never mix inside a stack, so members sit side by side and the readout takes their mean. None without
        members.
        """
        lenses = [member for member in self.members if isinstance(member, LensNetwork)]
        if not lenses:
            return None
        first, share = lenses[0], 1.0 / len(lenses)
        config = {**first.config(), "width": first.width * len(lenses)}
        whole = LensNetwork(**config).to(first.coefficients.dtype)
        with torch.no_grad():
            whole.embed_position.weight.copy_(torch.cat([lens.embed_position.weight for lens in lenses]))
            whole.embed_position.bias.copy_(torch.cat([lens.embed_position.bias for lens in lenses]))
            if whole.embed_angle is not None:
                angles = [lens.embed_angle for lens in lenses if lens.embed_angle is not None]
                whole.embed_angle.weight.copy_(torch.cat([angle.weight for angle in angles]))
                whole.embed_angle.bias.copy_(torch.cat([angle.bias for angle in angles]))
            whole.coefficients.copy_(torch.cat([lens.coefficients for lens in lenses], dim=1))
            whole.readout.weight.copy_(torch.cat([lens.readout.weight for lens in lenses], dim=1) * share)
            whole.readout.bias.copy_(torch.stack([lens.readout.bias for lens in lenses]).mean(dim=0))
        return whole

    def rollout(self, window: Array, steps: int, inputs: Array | None = None) -> Array:
        """The states after a window.

        Args:
            window: (..., H, n), oldest first.
            steps: how many.
            inputs: known inputs (..., steps, m), the first for the step that leaves the window; None without inputs.

        Returns:
            (..., steps, n) in float64. Not finite from where it diverged; NaN once every start has.
        """
        lead = window.shape[:-2]
        afford(f"a rollout of {steps:,} steps", (*lead, steps, self.frame.size), copies=ROLLOUT_COPIES)
        correct = self.correction()
        past = [np.asarray(window[..., k, :], dtype=np.float64) for k in range(self.frame.history)]
        states = np.full((*lead, steps, self.frame.size), np.nan)
        with np.errstate(over="ignore", invalid="ignore"):
            for k in range(steps):
                now = None if inputs is None else inputs[..., k, :]
                features = self.frame.feature_rows(np.stack(past, axis=-2), now)
                states[..., k, :] = self.frame.advance(past[-1], features, correct(features))
                past = [*past[1:], states[..., k, :]]
                if not np.isfinite(states[..., k, :]).all(axis=-1).any():
                    break
        return states

    def correction(self) -> Callable[[Array], Array | None]:
        """The members' mean as a function of features, (..., F) -> (..., n); None where there is nothing to add."""
        if not self.members or not self.frame.gain.any():
            return lambda _: None
        networks = [self.merged() or self.members[0]]
        if not isinstance(networks[0], LensNetwork):
            networks = list(self.members)
        for network in networks:
            network.eval()
        weight = networks[0].readout.weight

        def correct(features: Array) -> Array:
            with torch.no_grad():
                rows = torch.from_numpy(features).to(weight.device, weight.dtype)
                total = sum(network(rows) for network in networks)
            mean: Array = (total.double() / len(networks)).cpu().numpy()
            return mean

        return correct
