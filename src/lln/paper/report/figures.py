"""The paper's figures on rollouts and gradients, redrawn from records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator, ScalarFormatter
from numpy.typing import NDArray

from lln.core.statistics import geometric_band
from lln.paper.printed_values import all_depths
from lln.paper.report.compare import Evidence, table_of
from lln.paper.report.names import MODEL_NAMES, SYSTEM_NAMES, diverged
from lln.paper.report.other_tables import GRADIENT_MODELS
from lln.paper.report.rollout_tables import DEPTHS
from lln.plots.forecasts import colour_bar
from lln.plots.style import BLACK, BLUE, GREEN, GREY, VERMILION, WIDTH, colour, figure_style, look

REPRESENTATIVES = ("lorenz-24", "springchain-32", "burgers-32", "advecdiff-32", "reactiondiff-32")
CURVE_SYSTEMS = ("reactiondiff-48", "advecdiff-48", "burgers-48", "lorenz-24")


def depth_sweep_figure(evidence: Evidence) -> Figure:
    """Mean rollout error against depth, all models and systems; the printed means as faint dashes."""
    with figure_style():
        figure = Figure(figsize=(1.5 * WIDTH, 5.4), layout="constrained")
        axes = figure.subplots(2, 5, sharex=True)
        for axis, (system, title) in zip(axes.T.flat, SYSTEM_NAMES.items(), strict=True):
            for name, label in MODEL_NAMES.items():
                here = {depth: evidence.row_score(system, depth, name) for depth in DEPTHS}
                means = [np.nan if s is None or diverged(s.mean) else s.mean for s in here.values()]
                paper = [
                    np.nan if row.scores()[name].mean.is_infinite() else float(row.scores()[name].mean)
                    for row in all_depths()
                    if row.system == system
                ]
                axis.plot(DEPTHS, paper, color=colour(name), linestyle=(0, (2, 2)), linewidth=0.9, alpha=0.55)
                marker = look(name).marker or "o"
                axis.plot(DEPTHS, means, color=colour(name), marker=marker, markersize=3.5, label=label)
            axis.set_xscale("log", base=2)
            axis.set(title=title, yscale="log", xticks=DEPTHS)
            _plain_ticks(axis)
        for axis in axes[-1]:
            axis.set_xlabel("depth D")
        for axis in axes[:, 0]:
            axis.set_ylabel("normalised rollout MSE")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        handles += axes[0, 0].plot([], [], color=BLACK, linestyle=(0, (2, 2)), linewidth=0.9, alpha=0.55)
        figure.legend(handles, [*labels, "printed"], loc="outside lower center", ncols=7)
    return figure


def _plain_ticks(axis: Axes) -> None:
    axis.xaxis.set_major_formatter(ScalarFormatter())
    axis.xaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_minor_formatter(NullFormatter())
    low, high = axis.get_ylim()
    if high / low < 12:  # less than about a decade: powers of ten alone would leave the axis without a number
        ticks = [t for t in (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.2, 1.5, 2, 3, 4, 5, 7, 8, 10) if low <= t <= high]
        axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])


def gradient_figure(evidence: Evidence) -> Figure:
    """log10(g_l / g_D) by layer on five systems, with bands; below, the neutral neighbourhood magnified."""
    with figure_style():
        figure = Figure(figsize=(1.5 * WIDTH, 4.6), layout="constrained")
        axes = figure.subplots(2, 5, sharex=True, sharey="row", height_ratios=(3, 2))
        for column, system in enumerate(REPRESENTATIVES):
            for name in GRADIENT_MODELS:
                runs = evidence.runs("G0", system=system, model=name)
                if runs:
                    curves = table_of(runs[0], "log_ratios")
                    _band(axes[0, column], curves, name)
                    if name in ("scaled-residual", "lens"):
                        _band(axes[1, column], curves, name)
            axes[0, column].set_title(SYSTEM_NAMES[system])
            axes[1, column].set_xlabel("layer l")
        for axis in axes.flat:
            axis.axhline(0.0, color=BLACK, linewidth=0.7, linestyle=(0, (4, 3)))
        axes[0, 0].set_ylabel(r"$\log_{10}(g_l\,/\,g_D)$")
        axes[1, 0].set_ylabel("the same, magnified")
        _legend(figure, axes[0, 0])
    return figure


def _legend(figure: Figure, axis: Axes) -> None:
    """What `axis` shows, below the figure."""
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=max(len(labels), 1))


def _band(axis: Axes, curves: NDArray[Any], name: str) -> None:
    """Mean over seeds and one standard deviation around it."""
    layers = np.arange(1, curves.shape[1] + 1)
    mean = curves.mean(axis=0)
    spread = curves.std(axis=0, ddof=1) if len(curves) > 1 else np.zeros_like(mean)
    axis.plot(layers, mean, label=MODEL_NAMES[name], **look(name).line(len(layers)))
    axis.fill_between(layers, mean - spread, mean + spread, color=colour(name), alpha=0.2, linewidth=0)


def rollout_curve_figure(curves: Mapping[str, Mapping[str, NDArray[Any]]]) -> Figure:
    """Geometric mean error by step with 95 % seed-bootstrap bands, from errors (seeds, steps) by system and model."""
    with figure_style():
        figure = Figure(figsize=(1.5 * WIDTH, 3.0), layout="constrained")
        axes = figure.subplots(1, len(CURVE_SYSTEMS), squeeze=False)[0]
        for axis, system in zip(axes, CURVE_SYSTEMS, strict=True):
            for name, errors in sorted(curves.get(system, {}).items(), key=lambda item: item[0] != "lens"):
                steps = np.arange(1, errors.shape[1] + 1)
                mean, low, high = (np.where(np.isfinite(v), v, np.nan) for v in geometric_band(errors))
                axis.plot(steps, mean, label=MODEL_NAMES[name], **look(name).line(len(steps)))
                axis.fill_between(steps, low, high, color=colour(name), alpha=0.2, linewidth=0)
            axis.set(yscale="log", title=SYSTEM_NAMES[system], xlabel="rollout step")
            if not curves.get(system):
                axis.text(0.5, 0.5, "not run", transform=axis.transAxes, ha="center", va="center")
        axes[0].set_ylabel("normalised MSE at the step")
        drawn = [axis.get_legend_handles_labels() for axis in axes]
        entries = {label: handle for handles, labels in drawn for handle, label in zip(handles, labels, strict=True)}
        if entries:
            figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=len(entries))
    return figure


CLASS_COLOURS = (BLUE, GREEN)
ERROR_COLOUR = VERMILION
INPUTS = {"xlabel": "input x₁", "ylabel": "input x₂"}
SHOWN: tuple[dict[str, Any], ...] = (
    {"color": ERROR_COLOUR, "label": "boundary error"},
    {"color": CLASS_COLOURS[0], "label": "class-0 reference"},
    {"color": CLASS_COLOURS[1], "label": "class-1 reference"},
)


def case_figure(result: Mapping[str, Any]) -> Figure:
    """Panels: (a) the displayed error and its two references; (b) LLN position paths; (c) plain MLP paths."""
    with figure_style():
        figure = Figure(figsize=(1.5 * WIDTH, 3.8), layout="constrained")
        axes = figure.subplots(1, 3)
        _points(axes[0], result)
        shown = result["displayed"]
        for sample, look in zip(shown, SHOWN, strict=True):
            axes[0].scatter(*result["points"][sample], s=70, zorder=5, edgecolor=BLACK, **look)
        axes[0].set(title="(a) input space", **INPUTS)
        for axis, name, title in ((axes[1], "lens", "(b) LLN positions"), (axes[2], "mlp", "(c) plain MLP states")):
            _cloud(axis, result, name)
            for sample, look in zip(shown, SHOWN, strict=True):
                _path(axis, np.array(result["paths"][name][str(sample)]), **look)
            _zoom(axis, [np.array(path) for path in result["paths"][name].values()])
            _label_plane(axis, result["explained"][name], title)
        _legend(figure, axes[0])
    return figure


def refraction_figure(result: Mapping[str, Any]) -> Figure:
    """The three paths with the largest-turn layers of the error marked, and a table of every layer's turn."""
    shown, layers = result["displayed"], result["largest_turn_layers"]
    turns = np.array(result["turns"])[shown]
    with figure_style():
        figure = Figure(figsize=(1.5 * WIDTH, 4.0), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        _cloud(left, result, "lens")
        paths = [np.array(result["paths"]["lens"][str(sample)]) for sample in shown]
        for path, look in zip(paths, SHOWN, strict=True):
            _path(left, path, **look)
            for layer in layers:
                # path[l] is the position at which lens l bends the ray.
                left.scatter(path[layer, 0], path[layer, 1], marker="*", s=110, color=look["color"], ec=BLACK, zorder=6)
        for rank, layer in enumerate(layers):
            # Neighbouring layers lie close together: their names go above and below by turns.
            aside = (5, 6) if rank % 2 == 0 else (-8, -16)
            left.annotate(f"L{layer}", paths[0][layer], aside, textcoords="offset points", fontsize=9, weight="bold")
        _zoom(left, paths)
        _label_plane(left, result["explained"]["lens"], "refraction at the error's largest turns (stars)")
        readout = [f"class {result['predicted'][s]} ({result['confidence'][s]:.2f})" for s in shown]
        _turn_table(right, turns, layers, readout)
        _legend(figure, left)
    return figure


def overview_figure(result: Mapping[str, Any]) -> Figure:
    """Panels: (a) where the errors lie; (b) their paths; (c) their turns by layer; (d) how maximum turns are spread."""
    errors, turns = result["errors"], np.array(result["turns"])
    with figure_style():
        figure = Figure(figsize=(1.3 * WIDTH, 7.4), layout="constrained")
        axes = figure.subplots(2, 2)
        _points(axes[0, 0], result)
        _cloud(axes[0, 1], result, "lens")
        for rank, sample in enumerate(errors):
            point, path = result["points"][sample], np.array(result["paths"]["lens"][str(sample)])
            axes[0, 0].scatter(*point, s=60, color=ERROR_COLOUR, edgecolor=BLACK, zorder=5)
            _path(axes[0, 1], path, color=ERROR_COLOUR, label="", alpha=0.8)
            peak = int(turns[sample].argmax()) + 1
            axes[0, 1].scatter(*path[peak], marker="*", s=100, color=ERROR_COLOUR, edgecolor=BLACK, zorder=6)
            axes[0, 0].annotate(str(rank), point, (5, 4), textcoords="offset points", fontsize=8, weight="bold")
            # Paths end close together: a number beside one end would stand on another.
            axes[0, 1].scatter(*path[-1], marker="s", s=70, color=ERROR_COLOUR, edgecolor="white", zorder=7 + rank)
            inside = {"ha": "center", "va": "center_baseline", "color": "white", "zorder": 7 + rank}
            axes[0, 1].annotate(str(rank), path[-1], fontsize=6.5, weight="bold", **inside)
        _zoom(axes[0, 1], [np.array(result["paths"]["lens"][str(sample)]) for sample in errors])
        axes[0, 0].set(title=f"(a) the {len(errors)} errors in input space", **INPUTS)
        _label_plane(axes[0, 1], result["explained"]["lens"], "(b) their position paths")
        _turn_matrix(figure, axes[1, 0], turns[errors])
        _turn_distribution(axes[1, 1], turns.max(axis=1), errors)
        axes[0, 0].legend(loc="upper right")
    return figure


def _points(axis: Axes, result: Mapping[str, Any]) -> None:
    """All held-out samples."""
    for kind, tint in enumerate(CLASS_COLOURS):
        chosen = np.array(result["points"])[np.array(result["labels"]) == kind]
        axis.scatter(chosen[:, 0], chosen[:, 1], s=9, color=tint, alpha=0.35, linewidth=0, label=f"class {kind}")


def _cloud(axis: Axes, result: Mapping[str, Any], name: str) -> None:
    """Where all held-out samples end, behind the paths."""
    for kind, tint in enumerate(CLASS_COLOURS):
        chosen = np.array(result["cloud"][name])[np.array(result["labels"]) == kind]
        axis.scatter(chosen[:, 0], chosen[:, 1], s=6, color=tint, alpha=0.18, linewidth=0)


def _path(axis: Axes, path: NDArray[Any], *, color: str, label: str, alpha: float = 1.0) -> None:
    axis.plot(*path.T, color=color, marker="o", markersize=3, linewidth=1.4, label=label, alpha=alpha, zorder=4)
    axis.scatter(path[0, 0], path[0, 1], s=34, facecolor="white", edgecolor=color, zorder=5)
    axis.scatter(path[-1, 0], path[-1, 1], s=34, marker="s", color=color, zorder=5)


def _label_plane(axis: Axes, explained: Sequence[float], title: str) -> None:
    along = f"principal component 1 ({100 * explained[0]:.1f} % of variance)"
    axis.set(title=title, xlabel=along, ylabel=f"principal component 2 ({100 * explained[1]:.1f} %)")


def _zoom(axis: Axes, paths: Sequence[NDArray[Any]]) -> None:
    """Show the paths with a wide margin; the cloud behind them may be cut."""
    corners = np.concatenate(paths)
    low, high = corners.min(axis=0), corners.max(axis=0)
    margin = 0.35 * (high - low).max() + 1e-6
    axis.set_xlim(low[0] - margin, high[0] + margin)
    axis.set_ylim(low[1] - margin, high[1] + margin)


def _turn_table(axis: Axes, turns: NDArray[Any], layers: Sequence[int], readout: Sequence[str]) -> None:
    axis.axis("off")
    axis.set_title("turn of every layer in degrees, and readout")
    text = [*([f"{value:.2f}" for value in row] for row in turns.T), list(readout)]
    names = [*(f"L{layer}" for layer in range(1, turns.shape[1] + 1)), "reads"]
    drawn = axis.table(
        cellText=text, rowLabels=names, colLabels=["error", "class 0", "class 1"], loc="center", cellLoc="center"
    )
    drawn.scale(1.0, 1.25)
    for (row, column), cell in drawn.get_celld().items():
        cell.set_linewidth(0.4)
        cell.set_edgecolor(GREY)
        if row in layers and column == 0:
            cell.set_text_props(weight="bold", color=ERROR_COLOUR)


def _turn_matrix(figure: Figure, axis: Axes, turns: NDArray[Any]) -> None:
    shown = axis.imshow(turns, aspect="auto", cmap="cividis", vmin=0.0)
    axis.grid(False)
    axis.set(title="(c) turns of the errors by layer", xlabel="layer l", ylabel="error, by confidence rank")
    axis.set_xticks(range(turns.shape[1]), [f"L{layer}" for layer in range(1, turns.shape[1] + 1)])
    axis.set_yticks(range(len(turns)))
    colour_bar(figure, shown, axis).set_label("turn, degrees")


def _turn_distribution(axis: Axes, largest: NDArray[Any], errors: Sequence[int]) -> None:
    wrong = np.zeros(len(largest), dtype=bool)
    wrong[list(errors)] = True
    edges = np.linspace(float(largest.min()), float(largest.max()), 25)
    axis.hist(largest[~wrong], bins=list(edges), color=GREY, alpha=0.6, label="correct samples")
    for values, tint, name in (
        (largest[~wrong], BLACK, "median, correct"),
        (largest[wrong], ERROR_COLOUR, "median, errors"),
    ):
        axis.axvline(float(np.median(values)), color=tint, linewidth=1.2, linestyle=(0, (4, 3)), label=name)
    look: dict[str, Any] = {"color": ERROR_COLOUR, "markersize": 8, "markeredgecolor": BLACK, "label": "errors"}
    axis.plot(largest[wrong], np.full(len(errors), 0.03), "^", transform=axis.get_xaxis_transform(), **look)
    title = "(d) maximum turn of all held-out samples"
    axis.set(title=title, xlabel="maximum turn, degrees", ylabel="number of samples")
    axis.legend()
