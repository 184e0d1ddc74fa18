"""Exponential time differencing of order four: the linear part of a field is exact, the rest is Runge-Kutta.

For u' = L u + N(u) with L diagonal in Fourier space, variation of constants gives
``u(t + h) = e^{hL} u(t) + integral of e^{(h - s)L} N(u(t + s)) ds``; the four-stage scheme (Cox and Matthews 2002)
approximates the integral. A stiff L, however large, then puts no limit on the step. The error
falls with the fourth power of the step once it is small against the times of the modes that matter; with longer steps
of a stiff equation (Kuramoto-Sivashinsky at 0.1 and above) rather with the third.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Spectrum = NDArray[np.complexfloating[Any, Any]]

_TERMS = 20  # of the series for |z| < 1: the first one left out is below 1 / 20!


def phi(z: Spectrum) -> tuple[Spectrum, Spectrum, Spectrum]:
    """phi_1 .. phi_3 of every element: ``phi_k(z) = sum of z^j / (j + k)!``, so that phi_1(z) = (e^z - 1) / z.

    The closed forms subtract nearly equal numbers where z is small, so there the series is summed instead.
    """
    z = np.asarray(z, dtype=np.complex128)
    small = np.abs(z) < 1.0
    near, far = np.where(small, z, 0.0), np.where(small, 1.0, z)
    one = (np.exp(far) - 1.0) / far
    two = (one - 1.0) / far
    closed = (one, two, (two - 0.5) / far)
    found = []
    for order, value in enumerate(closed, start=1):
        series = np.zeros_like(z)
        for j in reversed(range(_TERMS)):
            series = series * near + 1.0 / math.factorial(j + order)
        found.append(np.where(small, series, value))
    return found[0], found[1], found[2]


def etdrk4(symbol: Spectrum, nonlinear: Callable[[Spectrum], Spectrum], step: float) -> Callable[[Spectrum], Spectrum]:
    """The map of one step h on spectra, for L = `symbol`, one number for each mode, and N = `nonlinear`."""
    z = step * np.asarray(symbol, dtype=np.complex128)
    half, full = np.exp(z / 2.0), np.exp(z)
    to_half = step / 2.0 * phi(z / 2.0)[0]
    one, two, three = phi(z)
    first = step * (one - 3.0 * two + 4.0 * three)
    middle = step * (2.0 * two - 4.0 * three)
    last = step * (4.0 * three - two)

    def advance(u: Spectrum) -> Spectrum:
        at_u = nonlinear(u)
        a = half * u + to_half * at_u
        at_a = nonlinear(a)
        b = half * u + to_half * at_a
        at_b = nonlinear(b)
        c = half * a + to_half * (2.0 * at_b - at_u)
        after: Spectrum = full * u + first * at_u + middle * (at_a + at_b) + last * nonlinear(c)
        return after

    return advance
