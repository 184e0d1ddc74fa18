"""What the paper calls systems, networks and variants, and how its numbers look."""

from __future__ import annotations

import math
from decimal import Decimal

from lln.core.statistics import Summary
from lln.core.table import INFINITY
from lln.paper.printed_values import COMPARATOR_NAMES, DIVERGED, FIELDS, SYSTEMS, MeanAndDeviation

FAMILY_NAMES = dict(zip(FIELDS, ("SpringChain", "Burgers", "AdvecDiff", "ReactionDiff"), strict=True))
SYSTEM_NAMES = {
    name: f"{FAMILY_NAMES.get(family, 'Lorenz')}-{size}"
    for name in SYSTEMS
    for family, _, size in (name.partition("-"),)
}
MODEL_NAMES = {"lens": "LLN", **COMPARATOR_NAMES}
SHORT_NAMES = dict(zip(MODEL_NAMES, ("LLN", "MLP", "Res", "Res-S", "Res-BN", "LS"), strict=True))
VARIANT_NAMES = {
    "full": "Full LLN",
    "no-lens": "Without lens refraction",
    "zero-angle": "Zero initial angle",
    "no-propagation": "Without free propagation",
}
REFERENCE_NAMES = {"training-mean": "Mean of the training data", "linear": "Linear least squares on increments"}
MISSING = "missing"
NOTHING = "–"

_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def diverged(value: float | Decimal) -> bool:
    """Whether a mean counts as diverged: not finite, or above 100 (finite ones in the all-depth table are below 10)."""
    return not math.isfinite(value) or value > DIVERGED


def power(value: float | Decimal, digits: int = 2) -> str:
    """A number in powers of ten, as in print: 5.6×10¹⁰.

    >>> power(5.6e10), power(0.000481, 3)
    ('5.6×10¹⁰', '4.81×10⁻⁴')
    """
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa}×10{str(int(exponent)).translate(_RAISED)}"


def mean_and_deviation(summary: Summary | None, decimals: int = 3, *, powers: bool = False) -> str:
    """A score of ours as the paper sets it; a spread too small for the decimals is set in powers of ten.

    A finite mean above 100 is too if `powers` (the ablation table); else it is shown as infinity.
    """
    if summary is None:
        return MISSING
    if diverged(summary.mean):
        return power(summary.mean) if powers and math.isfinite(summary.mean) else INFINITY
    if math.isnan(summary.deviation):
        return f"{summary.mean:.{decimals}f}"
    tiny = 0 < summary.deviation < 0.5 * 10**-decimals
    spread = power(summary.deviation, 3) if tiny else f"{summary.deviation:.{decimals}f}"
    return f"{summary.mean:.{decimals}f} ± {spread}"


def as_printed(score: MeanAndDeviation) -> str:
    """A printed score with its printed digits."""
    if score.mean.is_infinite():
        return INFINITY
    if score.deviation is None:
        return power(score.mean)
    tiny = 0 < score.deviation < Decimal("0.001") and len(score.deviation.as_tuple().digits) > 1
    return f"{score.mean} ± {power(score.deviation, 3) if tiny else score.deviation}"


def plain_number(value: float) -> str:
    """A bare number: three decimals, or three digits where that would show none; infinity as its sign."""
    if math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return INFINITY
    if value != 0 and not 5e-3 <= abs(value) < 1e5:
        return power(value, 3)
    return f"{value:.3f}"


def mean_number(value: float) -> str:
    """A mean as a bare number; a diverged one is infinite."""
    return INFINITY if diverged(value) else plain_number(value)


def quotient(here: float, printed: float | Decimal) -> str:
    """Ratio of means, here over printed; a dash where one diverged or the printed one is zero."""
    if diverged(here) or diverged(printed) or printed == 0:
        return NOTHING
    return f"{here / float(printed):.2f}"
