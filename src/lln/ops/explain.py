"""Says which backend serves a call and why, and how far the exact inverse drifts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lln.ops import backends
from lln.ops.grid import even_grid
from lln.ops.reference import inverse_transport
from lln.ops.transport import check_transport, common_dtype, lens_transport


@dataclass(frozen=True)
class Explanation:
    """Which backend serves a call, and what each of the others says."""

    serves: str  #: the backend that "auto" takes.
    reasons: dict[str, str]  #: for every backend, "serves", "could serve" or why it cannot.

    def __str__(self) -> str:
        """One line a backend."""
        return "\n".join(f"{name:<9} {reason}" for name, reason in self.reasons.items())


def explain(
    y: Tensor, theta: Tensor, coefficients: Tensor, centers: Tensor | Sequence[float], sigma: float
) -> Explanation:
    """Which backend `lens_transport` takes for these operands, and why the others do not serve."""
    check_transport(y, theta, coefficients, centers)
    members = coefficients.shape[0] if coefficients.ndim == 4 else 1
    dtype = common_dtype(y, theta, coefficients)
    work = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    points = tuple(centers.tolist()) if isinstance(centers, Tensor) else tuple(map(float, centers))
    grid = even_grid(points, float(sigma), backends.grid_precision(work))
    batch = y.numel() // max(1, members * y.shape[-1])
    call = backends.Call(y.device, work, members, batch, coefficients.shape[-3], y.shape[-1], grid)
    serves = backends.choose(call)
    reasons = {name: backends.refusal(name, call) or "could serve" for name in backends.registry}
    return Explanation(serves, {**reasons, serves: "serves"})


def drift(
    y: Tensor,
    theta: Tensor,
    coefficients: Tensor,
    centers: Tensor | Sequence[float],
    sigma: float,
    length: float,
    scale: float = 1.0,
) -> float:
    """How far the exact inverse, in working precision, misses the inputs it started from.

    The largest |difference| over y and theta, relative to their largest magnitude. Gradients with
    `backward="inverse"` are off by about as much; it grows with path length and lens strength, not with depth as such.
    """
    with torch.no_grad():
        ends = lens_transport(y, theta, coefficients, centers, sigma, length, scale)
        back = inverse_transport(*ends, coefficients, centers, sigma, length, scale)
        size = max(float(t.abs().max()) for t in (y, theta))
        missed = max(float((a - b).abs().max()) for a, b in zip(back, (y, theta), strict=True))
    return missed / size if size else missed
