"""Figures of forecasts: how several models' errors grow with the step."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from lln.core.errors import InputError
from lln.plots.style import BLACK, GREY, WIDTH, colour, house_style

Array = NDArray[np.floating[Any]]

# References share two quiet colours and differ by their dashes; networks each have a colour of their own.
DASHES: tuple[Any, ...] = ((0, (6, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (3, 1.5)))
TOP, BOTTOM = 1e2, 1e-17  # a lost model must not flatten the rest, and below rounding there is nothing to see


def comparison_figure(
    errors: Mapping[str, ArrayLike],
    *,
    bands: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    references: Collection[str] = (),
    threshold: float | None = None,
    dt: float | None = None,
    title: str = "",
) -> Figure:
    """Root mean square error against the rollout step, on a logarithmic axis, a labelled curve for each model.

    Args:
        errors: a name and the error by step, (steps,), for each model, in the order of the legend. A curve ends where
            it is not finite.
        bands: low and high by step around some of the curves.
        references: names of the models that are no networks; drawn dashed, in black and grey.
        threshold: the error that ends useful prediction, marked by a line.
        dt: time of one step; a second axis above shows time. None draws none.
        title: above the axes.
    """
    curves = {name: _curve(name, values) for name, values in errors.items()}
    if not curves:
        raise InputError("a comparison needs at least one model's errors, got none")
    longest = max(len(values) for values in curves.values())
    looks = _looks(list(curves), references)
    with house_style():
        figure = Figure(figsize=(WIDTH, 3.8), layout="constrained")
        axis = figure.subplots()
        axis.set_yscale("log")
        for name, (low, high) in (bands or {}).items():
            steps = np.arange(1, len(curves[name]) + 1)
            low, high = (_curve(name, side) for side in (low, high))
            axis.fill_between(steps, low, high, color=looks[name]["color"], alpha=0.15, linewidth=0)
        twins = _twins(curves, references)
        for name, values in curves.items():
            if name in twins:
                # Curves that lie on each other would hide all but one: one is drawn, and the others say which.
                axis.plot([], [], label=f"{name} (as {twins[name]})", **looks[name])
                continue
            axis.plot(np.arange(1, len(values) + 1), values, label=name, **looks[name])
            _mark_loss(axis, values, looks[name]["color"])
        if threshold is not None:
            axis.axhline(threshold, color=BLACK, linewidth=0.8, alpha=0.6, label=f"valid below {threshold:g}")
        axis.set_ylim(*_range(list(curves.values())))
        axis.set_xlim(1, max(longest, 2))
        axis.set_xlabel("rollout step")
        axis.set_ylabel("normalised RMSE at the step")
        if dt is not None:
            above = axis.secondary_xaxis("top", functions=(lambda k: np.multiply(k, dt), lambda t: np.divide(t, dt)))
            above.set_xlabel("time after the start")
        figure.suptitle(title, x=0.01, ha="left")
        figure.legend(loc="outside right upper")
    return figure


def _looks(names: list[str], references: Collection[str]) -> dict[str, dict[str, Any]]:
    """Colour and dash of each curve, by its place among networks or references in alphabetical order."""
    plain = sorted(name for name in names if name in references)
    others = sorted((name for name in names if name not in references), key=lambda name: (name != "lens", name))
    looks: dict[str, dict[str, Any]] = {}
    for i, name in enumerate(others):
        looks[name] = {"color": colour(i), "linewidth": 2.2 if i == 0 else 1.4, "zorder": 4 if i == 0 else 3}
    for i, name in enumerate(plain):
        looks[name] = {
            "color": (BLACK, GREY)[i % 2],
            "linestyle": DASHES[i % len(DASHES)],
            "linewidth": 1.3,
            "zorder": 2,
        }
    return looks


def _twins(curves: Mapping[str, Array], references: Collection[str]) -> dict[str, str]:
    """For each curve that equals another: the name of the one that is drawn, a reference where there is one."""
    order = sorted(curves, key=lambda name: name not in references)
    found: dict[str, str] = {}
    for i, name in enumerate(order):
        same = (one for one in order[:i] if one not in found and np.array_equal(curves[one], curves[name], True))
        first = next(same, None)
        if first is not None:
            found[name] = first
    return found


def _mark_loss(axis: Any, values: Array, shade: str) -> None:
    """A cross where the curve of a rollout that was lost leaves the picture or ends."""
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
    """From below the best curve's tenth smallest to above the worst; first steps may be exact to rounding."""
    seen = [values[np.isfinite(values)] for values in curves]
    seen = [values for values in seen if len(values)]
    if not seen:
        return 1e-3, 1.0
    low = min(float(np.quantile(values, 0.02)) for values in seen)
    high = min(max(float(values.max()) for values in seen), TOP)
    low = max(low / 2.0, BOTTOM)
    return low, max(2.0 * high, 8.0 * low)
