"""The figure of a comparison: error against lead time for several models."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter
from numpy.typing import ArrayLike, NDArray

from lln.core.errors import InputError
from lln.core.text import human_unit
from lln.plots.style import BLACK, house_style, look, new_figure

Array = NDArray[np.floating[Any]]

TOP, BOTTOM = 1e2, 1e-17  # limits of the axis: a diverged model must not flatten the others; rounding is the floor
_FEW_DECADES = 1e3  # range of an axis whose numbers are written plainly, such as 0.2


def comparison_figure(
    errors: Mapping[str, ArrayLike],
    *,
    bands: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    references: Collection[str] = (),
    threshold: float | None = None,
    dt: float | None = None,
    time_unit: str = "",
    title: str = "",
) -> Figure:
    """Root mean square error against the rollout step on a logarithmic axis, one labelled curve for each model.

    Args:
        errors: error by step, (steps,), by model name, in the order of the legend. A curve ends where it is not finite.
        bands: lower and upper quartile of the rollouts of some of the models.
        references: names of the simple methods; drawn thinner and below the networks.
        threshold: error at which a prediction stops being valid, drawn as a line.
        dt: time of one step, for a second axis in time; None omits it.
        time_unit: unit of dt; "" if it is not known.
        title: title of the figure.
    """
    curves = {name: _curve(name, values) for name, values in errors.items()}
    if not curves:
        raise InputError("a comparison needs at least one model's errors, got none")
    longest = max(len(values) for values in curves.values())
    looks = {name: _line(name, k, len(curves[name]), references) for k, name in enumerate(curves)}
    with house_style():
        figure = new_figure()
        axis = figure.subplots()
        axis.set_yscale("log")
        twins = _twins(curves, references)
        for name, values in curves.items():
            if name in twins:
                # Equal curves hide each other: one is drawn, and the legend names it for the others.
                axis.plot([], [], label=f"{look(name).label} (as {look(twins[name]).label})", **looks[name])
                continue
            axis.plot(np.arange(1, len(values) + 1), values, label=look(name).label, **looks[name])
            _mark_loss(axis, values, looks[name]["color"])
        for name, (low, high) in (bands or {}).items():
            steps = np.arange(1, len(curves[name]) + 1)
            low, high = (_curve(name, side) for side in (low, high))
            shade = {"color": looks[name]["color"], "alpha": 0.15, "linewidth": 0}
            axis.fill_between(steps, low, high, label=f"half of the rollouts\nof {look(name).label}", **shade)
        if threshold is not None:
            axis.axhline(threshold, color=BLACK, linewidth=0.8, alpha=0.6, label=f"valid below {threshold:g}")
        low, high = _range(list(curves.values()))
        axis.set_ylim(low, high)
        axis.set_xlim(1, max(longest, 2))
        axis.set_xlabel("rollout step")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set_ylabel("normalised RMSE at the step")
        if dt is not None:
            factor, unit = human_unit(longest * dt, time_unit)
            each = dt * factor
            turns = (lambda k: np.multiply(k, each), lambda t: np.divide(t, each))
            above = axis.secondary_xaxis("top", functions=turns)
            above.set_xlabel(f"time after the start{f' ({unit})' if unit else ''}")
        if low * _FEW_DECADES > high:
            axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axis.yaxis.set_minor_formatter(NullFormatter())
        figure.suptitle(title, x=0.01, ha="left")
        figure.legend(loc="outside right upper")
    return figure


def _line(name: str, place: int, points: int, references: Collection[str]) -> dict[str, Any]:
    """Colour, dash and markers of a curve; `LensForecaster` is the thickest, references are the thinnest."""
    width, order = (1.3, 2) if name in references else (2.2, 4) if look(name) is look("lens") else (1.4, 3)
    return {**look(name).line(points, 3 * place), "linewidth": width, "zorder": order}


def _twins(curves: Mapping[str, Array], references: Collection[str]) -> dict[str, str]:
    """For each curve that equals another one, the name of the curve that is drawn; references come first."""
    order = sorted(curves, key=lambda name: name not in references)
    found: dict[str, str] = {}
    for i, name in enumerate(order):
        same = (one for one in order[:i] if one not in found and np.array_equal(curves[one], curves[name], True))
        first = next(same, None)
        if first is not None:
            found[name] = first
    return found


def _mark_loss(axis: Any, values: Array, shade: str) -> None:
    """Mark with a cross where the curve of a diverged rollout leaves the axes or ends."""
    if np.isfinite(values).all() or not np.isfinite(values[0]):
        return
    last = int(np.argmax(~(values < TOP))) - 1
    axis.plot(last + 1, min(values[max(last, 0)], TOP), marker="x", color=shade, markersize=6, clip_on=False)


def _curve(name: str, values: ArrayLike) -> Array:
    curve = np.asarray(values, dtype=np.float64)
    if curve.ndim != 1 or len(curve) == 0:
        raise InputError(f"the errors of {name} must have shape (steps,), got {curve.shape}")
    return np.where(np.isfinite(curve) & (curve > 0), curve, np.nan)


def _range(curves: list[Array]) -> tuple[float, float]:
    """Limits of the error axis: from half the 2 % quantile of the best curve to twice the worst value."""
    seen = [values[np.isfinite(values)] for values in curves]
    seen = [values for values in seen if len(values)]
    if not seen:
        return 1e-3, 1.0
    low = min(float(np.quantile(values, 0.02)) for values in seen)
    high = min(max(float(values.max()) for values in seen), TOP)
    low = max(low / 2.0, BOTTOM)
    return low, max(2.0 * high, 8.0 * low)
