"""Sums and products with twice the digits of float64: a value is the unevaluated sum high + low of two tensors.

A product of many matrices whose determinant is 1 loses digits to cancellation; with about 32 digits on the way, its
result is right to the last digit of float64. Every operation is one tensor operation of float64, never fused, so the
error-free identities of Dekker and Knuth hold on every device. The relative error of one `times_plus` is below 2^-102
of the larger operand (Joldes, Muller, Popescu 2017).
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

_SPLITTER = 2.0**27 + 1.0


class Doubled(NamedTuple):
    """The unevaluated sum high + low."""

    high: Tensor
    low: Tensor

    def rounded(self) -> Tensor:
        """The nearest float64."""
        return self.high + self.low


def two_sum(a: Tensor, b: Tensor) -> Doubled:
    """A + b exactly (Knuth)."""
    total = a + b
    shadow = total - a
    return Doubled(total, (a - (total - shadow)) + (b - shadow))


def two_product(a: Tensor, b: Tensor) -> Doubled:
    """A * b exactly, without a fused multiply-add (Dekker)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _split(a), _split(b)
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return Doubled(product, error)


def add(a: Doubled, b: Doubled) -> Doubled:
    """A + b, also right where the two cancel."""
    high, carry = two_sum(a.high, b.high)
    low, rest = two_sum(a.low, b.low)
    high, carry = _renormalised(high, carry + low)
    return _renormalised(high, carry + rest)


def times(a: Doubled, b: Doubled) -> Doubled:
    """A * b."""
    product, error = two_product(a.high, b.high)
    return _renormalised(product, error + (a.high * b.low + a.low * b.high))


def times_plus(factor: Tensor, a: Doubled, b: Doubled) -> Doubled:
    """Factor * a + b, for a factor of ordinary precision."""
    product, error = two_product(factor, a.high)
    return add(_renormalised(product, error + factor * a.low), b)


def _renormalised(high: Tensor, low: Tensor) -> Doubled:
    total = high + low
    return Doubled(total, low - (total - high))


def _split(a: Tensor) -> tuple[Tensor, Tensor]:
    scaled = _SPLITTER * a
    high = scaled - (scaled - a)
    return high, a - high
