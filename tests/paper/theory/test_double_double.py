from fractions import Fraction

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lln.paper.theory.geometry import Doubled, add, times, times_plus, two_product, two_sum

floats = st.floats(-1e12, 1e12, allow_subnormal=False).filter(lambda x: x == 0 or abs(x) > 1e-60)
pairs = st.tuples(floats, st.floats(-1, 1))


def tensor(value):
    return torch.tensor(value, dtype=torch.float64)


def doubled(pair):
    """High and a low part of at most half an ulp of it, as every operation leaves them."""
    high, share = pair
    return two_sum(tensor(high), tensor(high * share * 2.0**-53))


def exact(value):
    if isinstance(value, Doubled):
        return Fraction(value.high.item()) + Fraction(value.low.item())
    return Fraction(value.item())


@settings(max_examples=300, deadline=None)
@given(floats, floats)
def test_sum_and_product_of_two_floats_are_exact(a, b):
    assert exact(two_sum(tensor(a), tensor(b))) == Fraction(a) + Fraction(b)
    assert exact(two_product(tensor(a), tensor(b))) == Fraction(a) * Fraction(b)


@settings(max_examples=300, deadline=None)
@given(pairs, pairs, floats)
def test_operations_keep_thirty_digits(a, b, factor):
    x, y, f = doubled(a), doubled(b), tensor(factor)
    # 2^-102 of the exact result for a product, of the operands for a sum of a product; 1e-90 covers underflow.
    unit, least = Fraction(1, 2**102), Fraction(1, 10**90)
    assert abs(exact(add(x, y)) - (exact(x) + exact(y))) <= unit * abs(exact(x) + exact(y)) + least
    assert abs(exact(times(x, y)) - exact(x) * exact(y)) <= unit * abs(exact(x) * exact(y)) + least
    size = abs(exact(f) * exact(x)) + abs(exact(y))
    assert abs(exact(times_plus(f, x, y)) - (exact(f) * exact(x) + exact(y))) <= unit * size + least
