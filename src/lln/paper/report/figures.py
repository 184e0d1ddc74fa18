"""The paper's figures on rollouts and gradients, redrawn from records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator, ScalarFormatter
from numpy.typing import NDArray

from lln.core.statistics import geometric_band
from lln.paper.printed_values import all_depths
from lln.paper.report.evidence import Evidence, table_of
from lln.paper.report.names import MODEL_NAMES, SYSTEM_NAMES, diverged
from lln.paper.report.other_tables import GRADIENT_MODELS
from lln.paper.report.rollout_tables import DEPTHS
from lln.plots.style import BLACK, WIDTH, colour, house_style, look

REPRESENTATIVES = ("lorenz-24", "springchain-32", "burgers-32", "advecdiff-32", "reactiondiff-32")
CURVE_SYSTEMS = ("reactiondiff-48", "advecdiff-48", "burgers-48", "lorenz-24")


def depth_sweep_figure(evidence: Evidence) -> Figure:
    """Mean rollout error against depth, all models and systems; the printed means as faint dashes."""
    with house_style():
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
            axis.set_title(title)
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            axis.set_xticks(DEPTHS)
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
    with house_style():
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
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return figure


def _band(axis: Axes, curves: NDArray[Any], name: str) -> None:
    """Mean over seeds and one standard deviation around it."""
    layers = np.arange(1, curves.shape[1] + 1)
    mean = curves.mean(axis=0)
    spread = curves.std(axis=0, ddof=1) if len(curves) > 1 else np.zeros_like(mean)
    axis.plot(layers, mean, label=MODEL_NAMES[name], **look(name).line(len(layers)))
    axis.fill_between(layers, mean - spread, mean + spread, color=colour(name), alpha=0.2, linewidth=0)


def rollout_curve_figure(curves: Mapping[str, Mapping[str, NDArray[Any]]]) -> Figure:
    """Geometric mean error by step with 95 % seed-bootstrap bands, from errors (seeds, steps) by system and model."""
    with house_style():
        figure = Figure(figsize=(1.5 * WIDTH, 3.0), layout="constrained")
        axes = figure.subplots(1, len(CURVE_SYSTEMS), squeeze=False)[0]
        for axis, system in zip(axes, CURVE_SYSTEMS, strict=True):
            for name, errors in sorted(curves.get(system, {}).items(), key=lambda item: item[0] != "lens"):
                steps = np.arange(1, errors.shape[1] + 1)
                mean, low, high = (np.where(np.isfinite(v), v, np.nan) for v in geometric_band(errors))
                axis.plot(steps, mean, label=MODEL_NAMES[name], **look(name).line(len(steps)))
                axis.fill_between(steps, low, high, color=colour(name), alpha=0.2, linewidth=0)
            axis.set_yscale("log")
            axis.set_title(SYSTEM_NAMES[system])
            axis.set_xlabel("rollout step")
            if not curves.get(system):
                axis.text(0.5, 0.5, "not run", transform=axis.transAxes, ha="center", va="center")
        axes[0].set_ylabel("normalised MSE at the step")
        drawn = [axis.get_legend_handles_labels() for axis in axes]
        entries = {label: handle for handles, labels in drawn for handle, label in zip(handles, labels, strict=True)}
        if entries:
            figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=len(entries))
    return figure
