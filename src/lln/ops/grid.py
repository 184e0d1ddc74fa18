"""Constants of the factored Gaussians: what turns K exponentials into two exponentials and K multiply-adds.

Let the control points be c_k = c_A + i d with an anchor A, i = k - A. With z = (y - c_A) kappa and
kappa = sqrt(log2 e) / sigma, every basis function is a product of three factors,

    exp(-((y - c_k) / sigma)^2) = 2^(-(z - z_i)^2) = 2^(C - z^2) * E^i * w_i,
    E = 2^(gamma z),  gamma = 2 kappa d,  z_i = gamma i / 2,  w_i = 2^(-z_i^2 - C),

so a lens is  2^(C - z^2) * (Horner over i >= 0 in E  +  Horner over i < 0 in 1 / E)  with coefficients a_k w_i.

Range. No factor may leave the floating-point range before its product is negligible. With X = max |z_i|:
the largest value met in the backward sweep is 2^(C - z^2) E^i <= 2^(C + X^2), which `_PEAK` bounds by choosing
C = floor(PEAK - X^2); and 2^(C - z^2) must stay normal until the outermost Gaussian has fallen by `_TAIL` squared
bits, sqrt(MIN + C) >= X + TAIL. Both together bound X (7.3 in float32: 12 centres at sigma = spacing make one group).
E itself must be finite up to the clamp. Wider grids are split into groups of neighbouring centres, each with its own
anchor; a group of one centre needs no E at all.

Rounding. C is an integer and gamma comes as a rounded number and its remainder, so with m = round(gamma z) the reduced
exponents gamma z - m and C - z^2 - m come out of fused multiply-adds with a rounding at their own small size only; what
an error of gamma z would do to E^i is thus avoided, not amplified.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np

LOG2E = math.log2(math.e)

# working precision -> (smallest normal exponent MIN, PEAK, TAIL), in bits
_RANGES = {"float32": (126, 94, 5.5), "float64": (1022, 880, 9.0)}

# Where sigma exceeds this many spacings, Gaussians far from y count as much as the nearest, and the i-th power of E
# carries i times its rounding error into them. Groups then reach this many centres from their anchor at most.
_WIDE, _WIDE_REACH = 3.5, 3


@dataclass(frozen=True)
class Group:
    """Neighbouring centres that share an anchor."""

    first: int  #: index of the first centre of the group.
    below: int  #: how many centres lie before the anchor.
    above: int  #: how many lie behind it; the group has below + 1 + above centres.
    anchor: float  #: position of the anchor centre.
    weights: tuple[float, ...]  #: w_i for i = -below..above.

    @property
    def count(self) -> int:
        """Number of centres."""
        return self.below + 1 + self.above


@dataclass(frozen=True, eq=False)
class Grid:
    """Equally spaced centres, ready for the factored evaluation (symbols: see the module's text).

    `even_grid` gives the same object for the same centres, so that caches can compare grids by identity.
    """

    kappa: float  #: scale from positions to z.
    gamma: float  #: slope of log2 E, rounded to the working precision.
    offset: int  #: the integer C.
    clamp: float  #: |z| is clamped here; beyond it 2^(C - z^2) is zero.
    groups: tuple[Group, ...]  #: one group where the range allows, else several.
    spacing: float  #: distance from one centre to the next, signed.
    wide: bool = False  #: whether sigma exceeds the spacing by so much that groups are kept short (see `_WIDE`).

    @property
    def basis(self) -> int:
        """Number of centres K."""
        return sum(group.count for group in self.groups)

    @property
    def gamma_low(self) -> float:
        """What rounding took from gamma."""
        return float(2 * Fraction(self.kappa) * Fraction(self.spacing) - Fraction(self.gamma))


@lru_cache(maxsize=256)
def even_grid(centers: tuple[float, ...], sigma: float, precision: str = "float32") -> Grid | str:
    """The constants for `centers` and `sigma`, or a sentence that says why there are none."""
    if not all(map(math.isfinite, centers)):
        return "the centres are not finite"
    rounded = np.dtype(precision).type
    last = len(centers) - 1
    spacing = float((centers[-1] - centers[0]) / max(last, 1))
    rounding = 2.0 * float(np.finfo(rounded).eps) * max(abs(centers[0]), abs(centers[-1]))
    if any(abs(center - (centers[0] + k * spacing)) > rounding for k, center in enumerate(centers)):
        return "the centres are not equally spaced"
    with np.errstate(over="ignore", under="ignore"):
        kappa = float(rounded(math.sqrt(LOG2E) / sigma))
        gamma = float(rounded(2.0 * kappa * spacing))
    if not math.isfinite(gamma) or not float(np.finfo(rounded).tiny) <= kappa < math.inf:
        return f"sigma = {sigma} with spacing {spacing} leaves the range of {precision}"
    least, peak, tail = _RANGES[precision]
    # The largest X with sqrt(MIN + PEAK - X^2) >= X + TAIL, and how many centres fit on one side of an anchor.
    widest = (math.sqrt(2.0 * (least + peak) - tail**2) - tail) / 2.0
    reach = min(last, int(2.0 * widest / abs(gamma))) if gamma else last
    wide = bool(sigma > _WIDE * abs(spacing))
    if wide:
        reach = min(reach, _WIDE_REACH)
    while True:
        parts = np.array_split(np.arange(last + 1), math.ceil((last + 1) / (2 * reach + 1)))
        farthest = max(len(part) // 2 for part in parts)
        offset = math.floor(peak - (farthest * gamma / 2.0) ** 2)
        clamp = math.sqrt(least + 1 + offset)
        if farthest == 0 or abs(gamma) * clamp <= least:
            break
        reach = farthest - 1  # E itself would overflow before z is clamped
    groups = tuple(_group(centers, int(part[0]), len(part), (kappa, spacing), offset) for part in parts)
    return Grid(kappa, gamma, offset, clamp, groups, spacing, wide)


def _group(centers: tuple[float, ...], first: int, count: int, step: tuple[float, float], offset: int) -> Group:
    below = (count - 1) // 2
    above = count - 1 - below
    weights = tuple(_weight(step, i, offset) for i in range(-below, above + 1))
    return Group(first, below, above, float(centers[first + below]), weights)


def _weight(step: tuple[float, float], i: int, offset: int) -> float:
    """w_i, rounded once: its exponent reaches hundreds of bits, of which float64 would lose the last that count."""
    work = Context(prec=40)
    distance = work.multiply(work.multiply(Decimal(step[0]), Decimal(step[1])), Decimal(i))
    bits = -work.multiply(distance, distance)
    value = float(work.power(Decimal(2), bits)) if bits > -10_000 else 0.0
    return math.ldexp(value, -offset)
