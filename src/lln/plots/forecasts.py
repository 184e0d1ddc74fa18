"""Figures of a forecast (curves, a field over time, or snapshots of a field in the plane) and of errors by step."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, ScalarFormatter
from numpy.typing import ArrayLike, NDArray

from lln.core.errors import InputError
from lln.core.table import human_unit, label
from lln.plots.style import BLACK, ERROR_COLOURS, FIELD_COLOURS, VERMILION, WIDTH, figure_style, look, new_figure

Array = NDArray[np.floating[Any]]
# Labels of ticks at years, months, days, hours, minutes and seconds; at the first of a longer unit; beside the axis.
_DATES = {
    "formats": ["%Y", "%b", "%d %b", "%H:%M", "%H:%M", "%S.%f"],
    "zero_formats": ["", "%Y", "%d %b", "%d %b", "%H:%M", "%H:%M"],
    "offset_formats": ["", "%Y", "%Y", "%Y", "%d %b %Y", "%d %b %Y %H:%M"],
}
_DAYS = (4.0, 60.0)  # spans in which ticks are some days apart


class Mark(NamedTuple):
    """A moment to mark, such as where a forecast stops being valid."""

    time: Any
    words: str


class Band(NamedTuple):
    """Bounds of a forecast, (time, n), and the probability that they are meant to cover."""

    lower: Array
    upper: Array
    level: float | None = None

    @property
    def label(self) -> str:
        """Text for the legend."""
        return "interval" if self.level is None else f"{100 * self.level:g} % interval"


def forecast_figure(
    times: Any,
    states: Array,
    *,
    labels: Sequence[str],
    time_label: str = "time",
    truth: Array | None = None,
    interval: Band | None = None,
    members: Array | None = None,
    past: tuple[Any, Array] | None = None,
    marks: Sequence[Mark] = (),
    title: str = "",
) -> Figure:
    """Each coordinate against time: forecast in colour, its interval shaded, the truth as a wide grey line below it.

    Times are numbers or dates, (time,); states (time, n) have n labels with units; the truth is (time, n), NaN where it
    is unknown. Members of an ensemble, (members, time, n), are thin lines, `past` is the times and states (rows, n)
    that lead to the start, and each mark is a vertical line.
    """
    style, count = look("lens"), len(labels)
    with figure_style():
        figure = new_figure(height=1.2 + (1.9 if count < 3 else 1.25) * count)
        axes = figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
        for j, axis in enumerate(axes):
            if interval is not None:
                bounds = (interval.lower[:, j], interval.upper[:, j])
                axis.fill_between(times, *bounds, color=style.colour, alpha=0.2, linewidth=0, label=interval.label)
            if past is not None:
                axis.plot(past[0], past[1][:, j], color=BLACK, linewidth=1.4, alpha=0.7, label="past")
            if truth is not None:
                # Wider than the forecast and pale: visible on both sides of a forecast that is right.
                axis.plot(times, truth[:, j], color=BLACK, linewidth=4.5, alpha=0.3, label="truth")
            for k, member in enumerate([] if members is None else members):
                name = "members" if k == 0 else None
                axis.plot(times, member[:, j], color=style.colour, linewidth=0.8, alpha=0.8, label=name)
            axis.plot(times, states[:, j], color=style.colour, linewidth=1.6, label="forecast")
            axis.set_ylabel(labels[j], **upright(labels[j]))
            drawn = [states, *([] if interval is None else interval[:2]), *([] if past is None else past[1:])]
            right = None if truth is None else truth[:, j]
            axis.set_ylim(*axis_limits(np.concatenate([one[:, j] for one in drawn]), right))
            _draw_marks(axis, marks, with_words=j == 0)
        axes[-1].set_xlabel(time_label)
        axes[-1].set_xlim((times if past is None else past[0])[0], times[-1])
        short_dates(axes[-1], times)
        figure.align_ylabels(axes)
        handles, names = axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=len(names))
        figure.suptitle(title, parse_math=False)
    return figure


def field_forecast_figure(
    times: Any,
    field: Array,
    *,
    grid: Array,
    labels: tuple[str, str, str],
    truth: Array | None = None,
    interval: Band | None = None,
    marks: Sequence[Mark] = (),
    title: str = "",
) -> Figure:
    """A field over time and one direction of space; with a truth, also the truth and the error.

    With an interval, the last panel shows half of the interval's width.

    The forecast and the truth, NaN where it is unknown, are (time, points); `grid` holds the positions of the points,
    and `labels` are those of the time axis, the space axis and the field. Each mark is a vertical line.
    """
    limits = _field_limits(field if truth is None else truth)
    panels = [("forecast", field, limits)]
    if truth is not None:
        wrong = field - truth
        size = float(np.nanmax(np.abs(wrong), initial=0.0)) or 1.0
        error = {"cmap": ERROR_COLOURS, "vmin": -size, "vmax": size}
        panels = [("truth", truth, limits), *panels, ("error: forecast − truth", wrong, error)]
    if interval is not None:
        panels.append((f"half of the {interval.label}", *_half(interval)))
    with figure_style():
        figure = new_figure(height=0.9 + 1.6 * len(panels))
        axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        images = []
        for axis, (name, values, colours) in zip(axes, panels, strict=True):
            images.append(axis.pcolormesh(times, grid, values.T, shading="nearest", rasterized=True, **colours))
            axis.set_title(name)
            axis.grid(False)
            axis.set_ylabel(labels[1], **upright(labels[1]))
            _draw_marks(axis, marks, with_words=axis is axes[0], inside=True)
        states = axes[: 1 if truth is None else 2]
        label_bar(colour_bar(figure, images[0], list(states), aspect=14 * len(states)), labels[2])
        for axis, image in zip(axes[len(states) :], images[len(states) :], strict=True):
            colour_bar(figure, image, axis, aspect=14)
        short_dates(axes[-1], times)
        axes[-1].set_xlabel(labels[0])
        figure.suptitle(title, parse_math=False)
    return figure


def snapshot_figure(
    moments: Sequence[str],
    fields: Array,
    *,
    axes_of_space: Sequence[tuple[str, Array]],
    label: str,
    truth: Array | None = None,
    interval: Band | None = None,
    title: str = "",
) -> Figure:
    """A field in the plane at several moments, with the truth above the forecast and half of the interval below it.

    Fields are (moments, rows, columns) under the titles `moments`; `axes_of_space` holds label and positions of the
    vertical and of the horizontal axis, and `label` is name and unit of the field.
    """
    limits = _field_limits(fields if truth is None else truth)
    rows = [("forecast", fields, limits)] if truth is None else [("truth", truth, limits), ("forecast", fields, limits)]
    states = len(rows)
    if interval is not None:
        rows.append((f"half of the\n{interval.label}", *_half(interval)))
    (up, y), (across, x) = axes_of_space
    shape = float(np.ptp(y) / (np.ptp(x) or 1.0)) or 1.0
    with figure_style():
        panel = (WIDTH - 1.9) / len(moments)  # beside them: labels and the colour bar
        figure = new_figure(height=0.9 + len(rows) * (panel * float(np.clip(shape, 0.3, 3.0)) + 0.12))
        axes = figure.subplots(len(rows), len(moments), squeeze=False, sharex=True, sharey=True)
        for k, (name, values, colours) in enumerate(rows):
            for j, words in enumerate(moments):
                axis = axes[k, j]
                image = axis.pcolormesh(x, y, values[j], shading="nearest", rasterized=True, **colours)
                axis.set_aspect("equal")
                axis.grid(False)
                axis.set_title(words if k == 0 else "", loc="center", fontsize=8.5)
                axis.set_xlabel(across if k == len(rows) - 1 else "")
            axes[k, 0].set_ylabel(f"{name}\n{up}")
            if k == states - 1:
                label_bar(colour_bar(figure, image, list(axes[: k + 1].flat), aspect=16 * states), label)
            elif k == states:
                colour_bar(figure, image, list(axes[k]), aspect=16)
        figure.suptitle(title, parse_math=False)
    return figure


def short_dates(axis: Axes, times: Any) -> None:
    """Label dates by what changes from tick to tick, with the rest beside the axis: long labels overlap."""
    if np.asarray(times).dtype.kind == "M":
        low, high = axis.get_xlim()  # in days
        # Some days apart, ticks are counted from the first one: counted from each first of a month, two are neighbours.
        multiples = not _DAYS[0] < high - low < _DAYS[1]
        locator = AutoDateLocator(minticks=4, maxticks=9, interval_multiples=multiples)  # type: ignore[no-untyped-call]
        axis.xaxis.set_major_locator(locator)
        axis.xaxis.set_major_formatter(ConciseDateFormatter(locator, **_DATES))  # type: ignore[no-untyped-call]


def axis_limits(states: Array, truth: Array | None) -> tuple[float, float]:
    """Limits of an axis: those of the truth, widened at most by its own range for what else is drawn."""
    base = states if truth is None or not np.isfinite(truth).any() else truth
    seen = base[np.isfinite(base)]
    low, high = (float(seen.min()), float(seen.max())) if len(seen) else (-1.0, 1.0)
    span = (high - low) or max(abs(high), 1.0)
    drawn = states[np.isfinite(states)]
    if len(drawn):
        low, high = min(low, max(float(drawn.min()), low - span)), max(high, min(float(drawn.max()), high + span))
    return low - 0.08 * span, high + 0.08 * span


def _half(interval: Band) -> tuple[Array, dict[str, Any]]:
    """Half of the width of an interval, and its colours."""
    half = (interval.upper - interval.lower) / 2
    return half, {"cmap": "Greys", "vmin": 0.0, "vmax": float(np.nanmax(half, initial=0.0)) or 1.0}


def _field_limits(field: Array) -> dict[str, Any]:
    """Colours of a field: symmetric about zero where it has both signs."""
    seen = field[np.isfinite(field)]
    low, high = (float(seen.min()), float(seen.max())) if len(seen) else (-1.0, 1.0)
    if low < 0 < high:
        high = max(high, -low)
        low = -high
    return {"cmap": FIELD_COLOURS, "vmin": low, "vmax": high if high > low else low + 1.0}


def _draw_marks(axis: Axes, marks: Sequence[Mark], with_words: bool, inside: bool = False) -> None:
    for k, (time, words) in enumerate(marks):
        axis.axvline(time, color=VERMILION, linewidth=1.1, linestyle=(0, (4, 3)))
        if with_words:
            low, high = axis.get_xlim()
            at = float(axis.convert_xunits(time))  # type: ignore[no-untyped-call]
            late = at > (low + high) / 2
            edge = {"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.75 if inside else 0.0}
            axis.annotate(
                words, (time, 1.0), (-3 if late else 3, -3 - 11 * k if inside else 3 + 10 * k),
                xycoords=("data", "axes fraction"), textcoords="offset points", fontsize=7.5, color=VERMILION,
                ha="right" if late else "left", va="top" if inside else "bottom", bbox=edge,
            )  # fmt: skip


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


def label_bar(bar: Colorbar, label: str) -> None:
    """Name what a colour bar shows."""
    bar.set_label(label, rotation=upright(label).get("rotation", "vertical"))


def upright(label: str) -> dict[str, Any]:
    """Keywords for the label of a vertical axis: a letter such as u stands upright, as turned it reads as another."""
    return {"rotation": "horizontal", "ha": "right", "va": "center"} if len(label) < 3 else {}


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
        threshold: error at which a forecast stops being valid, drawn as a line.
        dt: time of one step, for a second axis in time; None omits it.
        time_unit: unit of dt; empty if it is not known.
        title: title of the figure.
    """
    curves = {name: _curve(name, values) for name, values in errors.items()}
    if not curves:
        raise InputError("a comparison needs at least one model's errors, got none")
    longest = max(len(values) for values in curves.values())
    looks = {name: _line(name, k, len(curves[name]), references) for k, name in enumerate(curves)}
    with figure_style():
        figure = new_figure()
        axis = figure.subplots()
        axis.set_yscale("log")
        twins = _twins(curves, references)
        for name, values in curves.items():
            if name in twins:
                # Equal curves hide each other: one is drawn, and the legend names it for the others.
                axis.plot([], [], label=f"{label(name)} (as {label(twins[name])})", **looks[name])
                continue
            axis.plot(np.arange(1, len(values) + 1), values, label=label(name), **looks[name])
            _mark_loss(axis, values, looks[name]["color"])
        for name, (low, high) in (bands or {}).items():
            steps = np.arange(1, len(curves[name]) + 1)
            low, high = (_curve(name, side) for side in (low, high))
            shade = {"color": looks[name]["color"], "alpha": 0.15, "linewidth": 0}
            axis.fill_between(steps, low, high, label=f"half of the rollouts\nof {label(name)}", **shade)
        if threshold is not None:
            axis.axhline(threshold, color=BLACK, linewidth=0.8, alpha=0.6, label=f"valid below {threshold:g}")
        low, high = _range(list(curves.values()))
        axis.set_ylim(low, high)
        axis.set_xlim(1, max(longest, 2))
        axis.set_xlabel("rollout step")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        axis.set_ylabel("normalised RMSE at the step")
        if dt is not None:
            factor, unit = human_unit(longest * dt, time_unit)
            each = dt * factor
            turns = (lambda k: np.multiply(k, each), lambda t: np.divide(t, each))
            above = axis.secondary_xaxis("top", functions=turns)
            above.xaxis.set_major_locator(MaxNLocator(steps=[1, 2, 5, 10]))
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
    """For each curve that equals another one, the name of the curve that is drawn: ours, or else a reference."""
    order = sorted(curves, key=lambda name: (look(name) is not look("lens"), name not in references))
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
    """Limits of the error axis: from the first error or half the 2 % quantile of the best curve to twice the worst."""
    seen = [values[np.isfinite(values)] for values in curves]
    seen = [values for values in seen if len(values)]
    if not seen:
        return 1e-3, 1.0
    low = min(min(float(np.quantile(values, 0.02)), float(values[0])) for values in seen)
    high = min(max(float(values.max()) for values in seen), TOP)
    low = max(low / 2.0, BOTTOM)
    return low, max(2.0 * high, 8.0 * low)
