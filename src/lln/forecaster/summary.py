"""The summary of a fitted forecaster: its data, its choices and its held-out errors, as text."""

from __future__ import annotations

import math
import textwrap

from lln.core.table import OURS, human_time, number
from lln.fit.choice.holdout import lead_columns
from lln.fit.options import FitReport, Recipe
from lln.forecaster.layout import Layout, TrainingFingerprint

WIDTH = 100
_LABEL = 12
_LEADS = 4  # lead times that are shown
NAIVE = ("persistence", "drift", "mean", "smoothing", "last change", "seasonal naive")
LINEAR = ("linear", *NAIVE)  # parts of which none is chaotic


def summary(
    layout: Layout, recipe: Recipe, report: FitReport, training: TrainingFingerprint, width: int = WIDTH
) -> str:
    """One labelled paragraph for each fact, in lines of at most `width` characters."""
    parts = [
        ("data", _data(layout, report)),
        ("trained on", _rows(report, training)),
        ("noise", _noise(report)),
        ("step", _step(layout, report)),
        ("network", _network(recipe, report)),
        ("parameters", _parameters(report)),
        ("held out", _held_out(report)),
        *(("", line) for line in _by_lead(report)),
        ("intervals", _intervals(report)),
        ("chaos", _chaos(layout, report)),
        ("coverage", _coverage(report)),
        ("time", f"{report.seconds:.1f} s on {recipe.device}, random_state {recipe.seed}"),
        *(("note", note) for note in report.notes),
    ]
    lines = [f"LensForecaster, recipe {recipe.recipe!r}"]
    for label, text in parts:
        if text:
            lines += textwrap.wrap(
                f"  {label:<{_LABEL}}{text}",
                width,
                subsequent_indent=" " * (_LABEL + 2),
                break_long_words=False,
                break_on_hyphens=False,
            )
    return "\n".join(lines).replace("\xa0", " ")


def _data(layout: Layout, report: FitReport) -> str:
    many = "one trajectory" if report.trajectories == 1 else f"{report.trajectories:,} trajectories"
    forced = f", known inputs {', '.join(layout.input_names)}" if layout.input_names else ""
    early = f" (or the first {report.input_lags} rows)" if report.input_lags else ""
    trained = " trained" if report.held_out_rows else ""
    gaps = f"; {report.left_out:,} more touch a gap{early} and were left out" if report.left_out else ""
    return (
        f"{layout.source}: {many} of {layout.listing()}{forced}, dt = {layout.step_length}; {report.pairs:,} pairs of "
        f"neighbouring states{trained}{gaps}"
    )


def _rows(report: FitReport, training: TrainingFingerprint) -> str:
    rows = sum(last - first for _, first, last in training.rows)
    if rows >= training.total:
        return f"all {training.total:,} states, after the choices had been made on held-out ones"
    kept = sum(last - first for _, first, last in report.held_out_rows)
    chose = f"; {kept:,} others only helped to choose" if kept else ""
    return f"{rows:,} of {training.total:,} states{chose}"


def _noise(report: FitReport) -> str:
    if math.isnan(report.noise):
        return ""
    size = f"{report.noise:.2g} of the states' spread, {report.noise_of_increments:.2g} of one step's change"
    return f"found, about {size}" if report.noisy else f"none that matters (at most {size})"


def _step(layout: Layout, report: FitReport) -> str:
    looks = "the present state" if report.history == 1 else f"the last {report.history} states"
    looks = f"logarithms of {looks}" if report.logarithms else looks
    looks += f" and {report.input_lags} earlier values of each known input" if report.input_lags else ""
    if report.part in NAIVE:
        return f"looks at {looks}; {_naive(report)} alone, no linear part"
    growth = report.spectral_radius
    grows = f", spectral radius {growth:.6g}" if math.isfinite(growth) else ""
    if report.structure.get("members"):
        return f"looks at {looks}; the mean of {len(report.structure['members'])} linear maps in float64{grows}"
    near = "" if report.radius is None else f" within {report.radius} grid point{'s' * (report.radius != 1)}"
    closed = _closed_form(report)
    if closed:
        return f"looks at {looks}{near}; a {closed} of degree {report.degree} in float64"
    if report.ridge is None:
        return f"looks at {looks}; no linear part"
    what = "a convolution" if layout.space and report.radius is not None else "a linear map"
    return f"looks at {looks}{near}; {what} in float64 with ridge {report.ridge:.2g}{grows}"


def _naive(report: FitReport) -> str:
    """The simple method that is the whole step, with its season."""
    shape = report.structure
    if report.part != "seasonal naive" or not shape.get("season"):
        return report.part
    count = shape["smoothing"][0] if shape.get("smoothing") and shape["naive"] in ("season", "change") else 1
    mean = f", the mean of the last {count:g}" if count > 1 else ""
    drift = ", with drift" if report.linear_parameters else ""
    return f"seasonal naive (seasons of {shape['season']} steps{mean}{drift})"


def _closed_form(report: FitReport) -> str:
    """The nonlinear closed form that is the whole step, in words; empty if there is another part or none."""
    names = {"polynomial": "polynomial", "flow": "polynomial vector field"}
    return "" if report.correction_weight else names.get(report.part, "")


def _network(recipe: Recipe, report: FitReport) -> str:
    closed = _closed_form(report)
    if closed:
        return f"none: a {closed} of degree {report.degree} did best on held-out rollouts"
    if not report.model or not report.correction_weight:
        best = "this" if report.part in NAIVE else "the linear part"
        return f"none: no network did better than {best} on held-out rollouts"
    if report.part == "lens":
        drawn = "drawn and trained" if report.structure.get("factors") else "drawn"
        return f"{_many(report)}; lenses {drawn}, readout solved in closed form"
    tuned = f", fine-tuned over {report.unroll} steps" if report.unroll else ""
    weight = "" if recipe.recipe == "paper" else f"correction weight {report.correction_weight:.3g}, "
    return f"{_many(report)}; {weight}{report.updates:,} updates{tuned}"


def _many(report: FitReport) -> str:
    names = (
        ("width", report.width),
        ("depth", report.depth),
        ("basis", report.basis),
        ("optical length", report.optical_length),
    )
    sizes = ", ".join(f"{name} {value:g}" for name, value in names if value is not None)
    many = "one" if report.members == 1 else f"the mean of {report.members}"
    return f"{many} of kind {report.model!r} ({sizes})"


def _parameters(report: FitReport) -> str:
    if report.part in NAIVE:
        return f"{report.parameters:,}"
    each = (
        f"{report.parameters_per_member:,} in each network, "
        if report.parameters_per_member and report.correction_weight
        else ""
    )
    solved = _closed_form(report) or "linear part"
    return f"{report.parameters:,} ({each}{report.linear_parameters:,} in the {solved})"


def _held_out(report: FitReport) -> str:
    if math.isnan(report.held_out_nmse):
        return ""
    count = len(report.candidates)
    tried = f"; {count} candidate{'s' if count > 1 else ''} tried" if count else ""
    apart = report.part not in LINEAR and not math.isnan(report.linear_nmse)
    error, alone = f"{report.held_out_nmse:.3g}", f"{report.linear_nmse:.3g}"
    beside = f" (linear part alone {alone})" if apart and alone != error else ""
    return f"normalised mean square error {error}{beside} over {report.held_out_steps} steps{tried}"


def _by_lead(report: FitReport) -> list[str]:
    """Errors at a few lead times, a line for the model and for each simple method beside it."""
    if not report.skill or not report.lead_times:
        return []
    places = lead_columns(report.lead_times, _LEADS)
    width = max(map(len, (OURS, *report.skill)))
    rows = [("steps ahead", [f"{report.lead_times[k]}" for k in places])]
    cells = {name: [number(values[k]) for k in places] for name, values in report.skill.items()}
    if report.part in LINEAR and cells.get("linear map") == cells.get("model"):
        cells.pop("linear map", None)  # it is the model
    rows += [(OURS if name == "model" else name, cells) for name, cells in cells.items()]
    # Spaces that do not break keep a row on its line.
    return [f"{name:<{width}}{''.join(f'{cell:>10}' for cell in cells)}".replace(" ", "\xa0") for name, cells in rows]


def _intervals(report: FitReport) -> str:
    if report.coverage_90 is None:
        return ""
    return f"90 % intervals cover {report.coverage_90:.0%} of held-out states"


def _chaos(layout: Layout, report: FitReport) -> str:
    if report.exponent is None:
        return ""
    time = human_time(1.0 / report.exponent, layout.time_unit)
    return f"neighbouring rollouts separate by a factor e in about {time} (one Lyapunov time)"


def _coverage(report: FitReport) -> str:
    if report.coverage is None or not report.correction_weight:
        return ""
    return f"{1 - report.coverage:.1%} of hidden positions lie between the control points on the training data"
