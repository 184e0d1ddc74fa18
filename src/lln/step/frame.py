"""The frame around a network, in float64: units, delay coordinates, known inputs, and the linear part of the step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lln.step.polynomial import Array as Array
from lln.step.polynomial import Flow, Polynomial, polynomial_arrays


@dataclass(frozen=True, eq=False)
class Frame:
    """What is known of one step without a network.

    With z = (x - mean) / scale, the features of a window of H states and the inputs u of the present are

        f_k = [ z_k, (z_k - z_{k-1}) / d_1, ..., (z_{k-H+2} - z_{k-H+1}) / d_{H-1}, (u_k - input_mean) / input_scale ]

    and one step is

        x_{k+1} = clip(x_k + scale * (matrix f_k + offset + polynomial(f_k) + flow(z_k, u_k) + gain * net(f_k)))

    Differences carry the past, because neighbouring states are nearly equal and their difference would be lost in
    rounding. A network that predicts the next state outright is the special case matrix = [-1 0 ... 0], offset = 0,
    gain = 1.

    Attributes:
        mean: (n,), in the units of the data.
        scale: (n,), above zero.
        history: number of states H that a step looks at, the present one included.
        difference_scale: d, (H - 1, n), in standardised units.
        input_mean: (m,).
        input_scale: (m,), above zero.
        matrix: linear part, (n, F) with F = n H + m, from features to standardised increments.
        offset: (n,), standardised.
        gain: what one unit of the network's output is worth, (n,), standardised: the spread of what the linear part
            leaves over, times the correction weight. Zeros switch the network off.
        polynomial: of the features; None for none.
        flow: a vector field in the standardised states and inputs; None for none.
        low: (n,), in the units of the data: no state of a rollout is below; None for no bound.
        high: the same above.
    """

    mean: Array
    scale: Array
    history: int
    difference_scale: Array
    input_mean: Array
    input_scale: Array
    matrix: Array
    offset: Array
    gain: Array
    polynomial: Polynomial | None = None
    flow: Flow | None = None
    low: Array | None = None
    high: Array | None = None

    @property
    def size(self) -> int:
        """Number of coordinates n."""
        return int(self.mean.shape[0])

    @property
    def inputs(self) -> int:
        """Number of known inputs m."""
        return int(self.input_mean.shape[0])

    @property
    def features(self) -> int:
        """Number of features F = n H + m."""
        return self.size * self.history + self.inputs

    def feature_rows(self, window: Array, inputs: Array | None = None) -> Array:
        """Features of windows of states.

        Args:
            window: (..., H, n), oldest first, the present state last.
            inputs: (..., m), at the present; None where there are none.

        Returns:
            (..., F).
        """
        z = (window - self.mean) / self.scale
        parts = [z[..., -1, :]]
        parts += [(z[..., -j, :] - z[..., -j - 1, :]) / self.difference_scale[j - 1] for j in range(1, self.history)]
        if inputs is not None and self.inputs:
            parts.append((inputs - self.input_mean) / self.input_scale)
        return np.concatenate(parts, axis=-1)

    def advance(self, state: Array, features: Array, correction: Array | None = None) -> Array:
        """The next state: (..., n) from the present one, its features (..., F) and the network's output (..., n)."""
        change = features @ self.matrix.T + self.offset
        if self.polynomial is not None:
            change = change + self.polynomial(features)
        if self.flow is not None:
            n, inputs = self.size, features[..., self.size * self.history :] if self.inputs else None
            change = change + self.flow(features[..., :n], inputs)
        if correction is not None:
            change = change + self.gain * correction
        after: Array = state + self.scale * change
        return after if self.low is None or self.high is None else np.clip(after, self.low, self.high)

    def arrays(self) -> dict[str, Any]:
        """Every array under its name, as files and exports store them."""
        names = ("mean", "scale", "difference_scale", "input_mean", "input_scale", "matrix", "offset", "gain")
        found = {name: getattr(self, name) for name in names}
        if self.low is not None and self.high is not None:
            found |= {"low": self.low, "high": self.high}
        return found | polynomial_arrays(self.polynomial, self.flow)
