"""Equations for the page: the closed-form parts of a small step, and a true system as a polynomial vector field."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtri

from lln.step.frame import Array, Frame, FunctionKind, Functions, Polynomial, monomial_table
from lln.step.step import AnyStep
from lln.systems import SpectralField, System

FEW = 8
MOST_TERMS = 3000
NEGLIGIBLE = 1e-3
EXACT = 1e-10
_NAMES = ("gauss", "sin", "abs", "tanh", "exp", "reciprocal", "clip")  # of functions, by kind
ROUNDING = 1e-9  # of the argument of a sine

Powers = tuple[int, ...]
Terms = dict[Powers, Array]


def equations_of(step: AnyStep, dt: float) -> dict[str, Any] | None:
    """The equations of a step for the page; None if it has networks, a past, logarithms or many coordinates.

    A flow is written as a differential equation, other closed forms as the change over one step. Each equation lists
    its terms, the largest first: the power of each coordinate and the weight in the units of the data. Behind the
    coordinates stand known inputs, then functions of both, if the flow has any. Terms of less than a thousandth of the
    largest are left out; sizes are compared at the root mean square of the training data. `dt` is the time between rows
    in the unit that the page shows.
    """
    if step.kind != "dense" or step.corrected:
        return None
    frame: Frame = step.frame
    if frame.history > 1 or frame.size + frame.inputs > FEW or frame.logarithm is not None:
        return None
    discrete = bool(frame.matrix.any() or frame.offset.any()) or frame.polynomial is not None
    if discrete == (frame.flow is not None):
        return None
    functions = None if frame.flow is None else frame.flow.functions
    if (
        functions is not None and np.sum(functions.table[:, 1] == FunctionKind.GAUSSIAN) > FEW
    ):  # Gaussians that overlap say little
        return None
    found = _terms(frame, dt)
    if len(found) > MOST_TERMS:
        return None
    named, factors, sizes = ([], [], np.zeros(0)) if functions is None else _named(functions, frame)
    raw = _in_units(found, frame, factors)
    typical = np.concatenate([np.hypot(*_units(frame)), sizes])
    rows = [_listed(raw, i, typical) for i in range(frame.size)]
    return {"kind": "step" if frame.flow is None else "flow", "rows": rows, "functions": named}


def _units(frame: Frame) -> tuple[Array, Array]:
    """Mean and scale of the coordinates and of the known inputs behind them."""
    return np.concatenate([frame.mean, frame.input_mean]), np.concatenate([frame.scale, frame.input_scale])


def _named(functions: Functions, frame: Frame) -> tuple[list[dict[str, Any]], list[float], Array]:
    """Functions in the units of the data with slopes above zero, what each must be multiplied by, and typical sizes."""
    found, factors, (means, scales) = [], [], _units(frame)
    for (place, kind), (slope, shift) in zip(functions.table.tolist(), functions.arguments.tolist(), strict=True):
        mean, scale = float(means[place]), float(scales[place])
        moved, steep, name, factor = shift - slope * mean / scale, slope / scale, _NAMES[kind], 1.0
        if name == "exp":  # exp(a + b) = exp(b) exp(a)
            moved, factor = 0.0, float(np.exp(moved))
        elif name in ("abs", "reciprocal"):  # of the distance from a place
            factor = abs(steep) if name == "abs" else 1.0 / steep
            moved, steep = moved / steep, 1.0
        elif steep < 0:
            moved, steep, factor = -moved, -steep, 1.0 if name == "gauss" else -1.0
        if name == "sin":
            quarters = round(moved / (np.pi / 2))
            rest = moved - quarters * np.pi / 2
            if abs(rest) > ROUNDING * (1.0 + abs(shift) + abs(moved)):  # neither sin nor cos
                quarters, rest = 0, float(np.angle(np.exp(1j * moved)))
            else:
                rest = 0.0
            moved, name = rest, ("sin", "cos")[quarters % 2]
            factor = factor if quarters % 4 < 2 else -factor
        if abs(moved) < NEGLIGIBLE * abs(steep) * math.hypot(mean, scale):
            moved = 0.0
        found.append({"kind": name, "coordinate": place, "slope": steep, "shift": moved})
        factors.append(factor)
    # Training data has mean 0 and spread 1 here.
    usual = np.repeat(ndtri(np.linspace(0.02, 0.98, 49))[:, None], int(functions.table[:, 0].max()) + 1, axis=1)
    return found, factors, np.sqrt(np.mean(np.square(functions(usual)), axis=0)) / np.abs(factors)


def _terms(frame: Frame, dt: float) -> Terms:
    """Weights (n,) by the powers of the standardised variables: of a flow per unit of time, else of one step."""
    count = frame.size + frame.inputs
    if frame.flow is not None:
        count += 0 if frame.flow.functions is None else len(frame.flow.functions)
        terms = _polynomial_terms(frame.flow.polynomial, count)
        _add(terms, (0,) * count, frame.flow.offset)
        return {powers: weights / dt for powers, weights in terms.items()}
    terms = {} if frame.polynomial is None else _polynomial_terms(frame.polynomial, count)
    for i in range(count):
        _add(terms, tuple(int(i == j) for j in range(count)), frame.matrix[:, i])
    _add(terms, (0,) * count, frame.offset)
    return terms


def _polynomial_terms(polynomial: Polynomial, size: int) -> Terms:
    """Weights (n,) by the powers of the `size` factors: standardised variables, and functions behind them."""
    powers: list[Powers] = []
    terms: Terms = {}
    for index, (parent, factor) in enumerate(polynomial.table.tolist()):
        before = powers[parent] if parent >= 0 else (0,) * size
        powers.append(tuple(power + (i == factor) for i, power in enumerate(before)))
        _add(terms, powers[-1], polynomial.weights[:, index])
    return terms


def _in_units(terms: Terms, frame: Frame, factors: list[float]) -> Terms:
    """Replace each standardised variable by (x - mean) / scale and multiply out; functions have factors."""
    raw: Terms = {}
    (mean, scale), count = _units(frame), frame.size + frame.inputs
    for powers, weights in terms.items():
        if not weights.any():
            continue
        behind = powers[count:]
        product: dict[Powers, float] = {(0,) * count + behind: float(np.prod(np.power(factors, behind)))}
        for i, power in enumerate(powers[:count]):
            for _ in range(power):
                grown: dict[Powers, float] = {}
                for known, factor in product.items():
                    more = tuple(p + (i == j) for j, p in enumerate(known))
                    grown[more] = grown.get(more, 0.0) + factor / scale[i]
                    grown[known] = grown.get(known, 0.0) - factor * mean[i] / scale[i]
                product = grown
        for known, factor in product.items():
            _add(raw, known, factor * frame.scale * weights)
    return raw


def _listed(terms: Terms, coordinate: int, typical: Array) -> list[dict[str, Any]]:
    """The terms of one equation that matter, the largest first."""
    size = {powers: float(abs(w[coordinate]) * np.prod(typical ** np.asarray(powers))) for powers, w in terms.items()}
    least = NEGLIGIBLE * max(size.values(), default=0.0)
    kept = sorted((powers for powers in size if size[powers] > least), key=lambda powers: -size[powers])
    return [{"powers": list(powers), "weight": float(terms[powers][coordinate])} for powers in kept]


def _add(terms: Terms, powers: Powers, weights: Array) -> None:
    terms[powers] = terms[powers] + weights if powers in terms else np.asarray(weights, dtype=np.float64)


def polynomial_field(system: System) -> tuple[Any, Array, Array] | None:
    """Monomial table (M, 2), weights (n, M) and offset (n,) of `system.rhs`; None if it is not such a polynomial.

    Monomials are those of degree 1 to 3 of systems of few coordinates, and of larger ones those of single coordinates
    and of products of neighbours. The weights are found from the values of the right-hand side and checked on others.
    """
    if isinstance(system, SpectralField):
        return None
    n = system.size
    table = monomial_table(range(n), 3) if n <= FEW else _local_table(n)
    source = np.random.default_rng(0)
    states = source.normal(size=(2 * len(table) + 50, n))
    values = Polynomial(table, np.zeros((n, len(table)))).monomials(states)
    slopes = system.rhs(states)
    fitted = len(table) + 40
    design = np.concatenate([values, np.ones((len(values), 1))], axis=1)
    weights = np.linalg.lstsq(design[:fitted], slopes[:fitted], rcond=None)[0]
    wrong = np.abs(design[fitted:] @ weights - slopes[fitted:]).max()
    if wrong > EXACT * (np.abs(slopes).max() + 1.0):
        return None
    weights[np.abs(weights) < 1e-9 * np.abs(weights).max()] = 0.0
    used = np.flatnonzero(weights[:-1].any(axis=1))
    kept = _closed(table, used)
    places = {int(old): new for new, old in enumerate(kept)}
    small = [(places.get(int(parent), -1), int(factor)) for parent, factor in table[kept]]
    return np.asarray(small, dtype=np.int64), np.ascontiguousarray(weights[:-1][kept].T), weights[-1]


def _local_table(n: int) -> Any:
    """Each coordinate, its square and cube, and its product with the next one, on a ring."""
    one = np.arange(n)
    parents, factors = [np.full(n, -1), one, n + one, one], [one, one, one, (one + 1) % n]
    return np.stack([np.concatenate(parents), np.concatenate(factors)], axis=1)


def _closed(table: Any, used: Any) -> list[int]:
    """The used monomials and those that they are built from, in order."""
    kept: set[int] = set()
    for index in map(int, used):
        while index >= 0 and index not in kept:
            kept.add(index)
            index = int(table[index, 0])
    return sorted(kept)
