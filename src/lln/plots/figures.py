"""Figures of truth and predictions from arrays; each function returns a figure to show or to save."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator, ScalarFormatter
from numpy.typing import ArrayLike, NDArray

from lln.core.checks import positive
from lln.core.errors import InputError
from lln.plots.style import BLACK, ERROR_COLOURS, FIELD_COLOURS, WIDTH, colour, house_style, look, new_figure

Array = NDArray[np.floating[Any]]


def field_figure(
    truth: ArrayLike,
    predictions: Mapping[str, ArrayLike],
    *,
    dt: float,
    grid: ArrayLike,
    before: ArrayLike | None = None,
    title: str = "",
    symbol: str = "u",
) -> Figure:
    """A field in space and time: the truth, then for each model its prediction and its error.

    Truth and predictions share one colour scale; each error has its own, symmetric about zero.

    Args:
        truth: (time, n).
        predictions: a name and states (time, n) for each model.
        dt: time between rows.
        grid: position of each column, (n,).
        before: what led up to the rollout, (time, n), drawn beside the truth on the same colours.
        title: above everything.
        symbol: what the field is called.
    """
    right = _states("truth", truth)
    past = None if before is None else _states("before", before)
    seen = right if past is None else np.concatenate([past, right])
    bound = float(np.abs(seen).max()) or 1.0
    field: dict[str, Any] = {"cmap": FIELD_COLOURS, "vmin": -bound, "vmax": bound}
    rows = 1 + len(predictions)
    with house_style():
        figure = new_figure(height=0.9 + 1.4 * rows)
        axes = figure.subplots(rows, 2, squeeze=False)
        shown = _paint(axes[0, 0], right, "truth", dt, grid, **field)
        if past is None:
            axes[0, 1].axis("off")
        else:
            _paint(axes[0, 1], past, "before the rollout", dt, grid, last=0.0, **field)
        for row, (name, states) in enumerate(predictions.items(), start=1):
            guess = _like(name, states, right)
            _paint(axes[row, 0], guess, look(name).label, dt, grid, **field)
            size = float(np.nanmax(np.abs(guess - right), initial=0.0)) or 1.0
            wrong: dict[str, Any] = {"cmap": ERROR_COLOURS, "vmin": -size, "vmax": size}
            drawn = _paint(axes[row, 1], guess - right, f"error of {look(name).label}", dt, grid, **wrong)
            colour_bar(figure, drawn, axes[row, 1])
        colour_bar(figure, shown, list(axes[:, 0]), aspect=12 * rows).ax.set_title(symbol, loc="center")
        for axis in axes[:, 0]:
            axis.set_ylabel("position x")
        for axis in axes[:-1].flat:
            axis.tick_params(labelbottom=axis is axes[0, 1])
        for axis in axes[-1]:
            axis.set_xlabel("time t from the start of the rollout")
        figure.suptitle(title)
    return figure


def colour_bar(figure: Figure, image: AxesImage, axes: Any, **options: Any) -> Colorbar:
    """A colour bar whose labels are plain numbers of up to three digits, with one power of ten above where needed."""
    bar = figure.colorbar(image, ax=axes, pad=0.02, **options)
    form = ScalarFormatter(useMathText=True)
    form.set_powerlimits((-2, 3))
    bar.ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    bar.ax.yaxis.set_major_formatter(form)
    bar.ax.yaxis.set_offset_position("left")
    bar.ax.tick_params(labelsize=7.5)
    bar.ax.yaxis.get_offset_text().set_fontsize(7.5)
    return bar


def _paint(
    axis: Axes, field: Array, title: str, dt: float, grid: ArrayLike, *, last: float | None = None, **style: Any
) -> AxesImage:
    """Space upwards, time to the right, ending at time `last` (by default the clock starts at zero)."""
    x, span = np.asarray(grid, dtype=float), positive("dt", dt) * len(field)
    end = span if last is None else last
    extent = (end - span, end, float(x[0]), float(x[-1] + x[1] - x[0]))
    axis.set_title(title)
    axis.grid(False)
    return axis.imshow(field.T, aspect="auto", origin="lower", extent=extent, interpolation="nearest", **style)


def trajectory_figure(
    truth: ArrayLike, predictions: Mapping[str, ArrayLike], *, dt: float, names: Sequence[str], title: str = ""
) -> Figure:
    """Each coordinate against time, the truth in black and the models over it.

    Args:
        truth: (time, n).
        predictions: a name and states (time, n) for each model.
        dt: time between rows.
        names: of the coordinates, n; one panel for each.
        title: above everything.
    """
    right = _states("truth", truth)
    times = positive("dt", dt) * np.arange(1, len(right) + 1)
    with house_style():
        figure = new_figure(height=0.9 + 1.25 * len(names))
        axes = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
        for j, axis in enumerate(axes):
            axis.plot(times, right[:, j], color=BLACK, linewidth=2.6, alpha=0.85, label="truth")
            for i, (name, states) in enumerate(predictions.items()):
                style = look(name).line(len(times), 5 * i)
                axis.plot(times, _like(name, states, right)[:, j], label=look(name).label, **style)
            axis.set_ylabel(names[j])
            low, high = float(right[:, j].min()), float(right[:, j].max())
            margin = 0.25 * (high - low) or 1.0
            axis.set_ylim(low - margin, high + margin)
        axes[-1].set_xlabel("time t after the start of the rollout")
        axes[-1].set_xlim(0.0, times[-1])
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        figure.suptitle(title)
    return figure


def portrait_figure(
    truth: ArrayLike, predictions: Mapping[str, ArrayLike], *, names: Sequence[str], title: str = ""
) -> Figure:
    """Phase portraits side by side: three coordinates in space, or two in the plane, the truth's first.

    Args:
        truth: (time, n), n at least 2; the first two or three coordinates are drawn.
        predictions: a name and states (time, n) for each model.
        names: of the coordinates.
        title: above everything.
    """
    right = _states("truth", truth)
    if right.shape[1] < 2:
        raise InputError(f"a phase portrait needs at least 2 coordinates, got {right.shape[1]}")
    shown = min(right.shape[1], 3)
    panels = {"truth": right, **{name: _like(name, states, right) for name, states in predictions.items()}}
    limits = [_limits(right[:, j]) for j in range(shown)]
    with house_style():
        across = len(panels) if len(panels) < 4 else -(-len(panels) // 2)
        down = -(-len(panels) // across)
        figure = new_figure(height=0.5 + 0.68 * WIDTH * down / across)
        for i, (name, states) in enumerate(panels.items()):
            axis: Any = figure.add_subplot(down, across, i + 1, projection="3d" if shown == 3 else None)
            if i:
                axis.plot(*right[:, :shown].T, color=BLACK, linewidth=0.7, alpha=0.3)
            drawn = np.where(_inside(states[:, :shown], limits)[:, None], states[:, :shown], np.nan)
            axis.plot(*drawn.T, color=colour(name) if i else BLACK, linewidth=1.1)
            axis.scatter(*right[:1, :shown].T, color=BLACK, s=10, zorder=5)
            axis.set_title(look(name).label if i else name, loc="center")
            _label_portrait(axis, names[:shown], limits)
        figure.suptitle(title)
    return figure


def _label_portrait(axis: Any, names: Sequence[str], limits: Sequence[tuple[float, float]]) -> None:
    for letter, name, (low, high) in zip("xyz", names, limits, strict=False):
        getattr(axis, f"set_{letter}label")(name)
        getattr(axis, f"set_{letter}lim")(low, high)
        getattr(axis, f"{letter}axis").set_major_locator(MaxNLocator(4))
    if len(names) == 3:
        axis.view_init(elev=18, azim=-60)
        axis.set_box_aspect(None, zoom=1.1)
        axis.tick_params(labelsize=6.5, pad=-2)
        for letter in "xyz":
            getattr(axis, f"{letter}axis").labelpad = -6
            getattr(axis, f"{letter}axis").set_pane_color((1.0, 1.0, 1.0, 0.0))


def error_figure(
    errors: Mapping[str, ArrayLike], *, title: str = "", threshold: float | None = None, axis_top: float = 1e2
) -> Figure:
    """Normalised error against the rollout step, on a logarithmic axis, a curve for each model.

    Args:
        errors: a name and the mean squared error by step, (steps,), for each model.
        title: above the axes.
        threshold: a level to mark as the end of useful prediction.
        axis_top: curves are cut above this, so that one diverged model does not flatten the rest.
    """
    with house_style():
        figure = new_figure(height=3.4)
        axis = figure.subplots()
        drawn = {name: np.asarray(values, dtype=float) for name, values in errors.items()}
        for i, (name, values) in enumerate(drawn.items()):
            style = look(name).line(len(values), 3 * i)
            axis.plot(
                np.arange(1, len(values) + 1), np.where(values > 0, values, np.nan), label=look(name).label, **style
            )
        axis.set_yscale("log")
        if threshold is not None:
            axis.axhline(
                threshold, color=BLACK, linewidth=0.8, linestyle=(0, (4, 3)), label="limit of valid prediction"
            )
        _set_range(axis, list(drawn.values()), axis_top)
        axis.set_xlabel("rollout step")
        axis.set_ylabel("normalised MSE at the step")
        axis.set_xlim(1, max(len(values) for values in drawn.values()))
        axis.set_title(title)
        figure.legend(loc="outside right center")
    return figure


def _set_range(axis: Axes, curves: Sequence[Array], top: float) -> None:
    """From below the typical error of the best curve to above the worst; first steps may be exact to rounding."""
    drawn = [values[np.isfinite(values) & (values > 0)] for values in curves]
    drawn = [values for values in drawn if len(values)]
    if drawn:
        floor = min(float(np.median(values)) for values in drawn) / 100
        axis.set_ylim(floor, max(min(2 * max(float(values.max()) for values in drawn), top), 2 * floor))


def _states(name: str, values: ArrayLike) -> Array:
    array = np.asarray(values, dtype=float)
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(f"{name} must have shape (time, n), got {array.shape}")
    return array


def _like(name: str, values: ArrayLike, truth: Array) -> Array:
    array = _states(name, values)
    if array.shape != truth.shape:
        raise InputError(f"{name} must have the shape of the truth, {truth.shape}, got {array.shape}")
    return array


def _limits(values: Array) -> tuple[float, float]:
    margin = 0.2 * (float(values.max() - values.min()) or 1.0)
    return float(values.min()) - margin, float(values.max()) + margin


def _inside(states: Array, limits: Sequence[tuple[float, float]]) -> NDArray[np.bool_]:
    low, high = np.array(limits).T
    inside: NDArray[np.bool_] = ((states >= low) & (states <= high)).all(axis=1)
    return inside
