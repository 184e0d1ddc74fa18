"""What a fit prints: its progress (bars, one line in a notebook, nothing in a script), and its summary."""

from __future__ import annotations

import math
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from lln.core.errors import InputError, printable
from lln.core.table import OURS, counted, human_time, number

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rich.console import Console

    from lln.fit.options import FitReport, Recipe
    from lln.forecaster.layout import Layout, TrainingFingerprint
    from lln.step.frame import Flow

Listener = Callable[[Any], None]
_LONG_MESSAGE = 24  # columns; longer messages have a line of their own above the bars


def progress_for(verbose: bool | str) -> AbstractContextManager[Listener | None]:
    """A context that gives the callback of a fit.

    Args:
        verbose: True shows progress in any case, False never. "auto" shows it in an interactive session on a terminal
            and in a notebook, and is silent in scripts.
    """
    if not (isinstance(verbose, bool | int) or verbose == "auto"):
        raise InputError(f'verbose must be True, False or "auto", got {verbose!r}')
    if (verbose == "auto" and not (in_notebook() or (_interactive() and sys.stderr.isatty()))) or not verbose:
        return nullcontext(None)
    if in_notebook():
        return _notebook_line()
    if sys.stderr.isatty():
        from rich.console import Console

        return bars_on(Console(stderr=True, highlight=False))
    return nullcontext(_say)


def in_notebook() -> bool:
    """Whether the session is a Jupyter notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and hasattr(shell, "kernel")


def _interactive() -> bool:
    return hasattr(sys, "ps1") or bool(sys.flags.interactive) or "IPython" in sys.modules


def _say(event: Any) -> None:
    print(event, flush=True)


@contextmanager
def _notebook_line() -> Iterator[Listener]:
    """One line that is replaced by each event, and removed at the end."""
    import html

    from IPython.display import HTML, display

    handle = display(HTML(""), display_id=True)

    def listen(event: Any) -> None:
        bar = f"<progress value='{event.done}' max='{max(event.total, 1)}'></progress>"
        handle.update(HTML(f"{bar} {html.escape(printable(str(event)))}"))

    try:
        yield listen
    finally:
        handle.update(HTML(""))


@contextmanager
def bars_on(screen: Console) -> Iterator[Listener]:
    """A callback that draws a numbered bar for each phase on `screen`; the bars vanish at the end."""
    from rich.live import Live

    bars = Bars()
    with Live(bars, console=screen, transient=True):
        yield bars.listen


class Bars:
    """Bars of the phases of a command, and the latest long message above them."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

        self.progress = Progress(
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description:<21}", markup=False),
            BarColumn(bar_width=20),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.fields[message]}", markup=False, style="dim"),
        )
        self.message = ""
        self._bars: dict[tuple[str, str], Any] = {}
        self._groups: dict[str, tuple[int, Any]] = {}
        self._before = self.progress.get_time()
        self._latest: Any = None

    def __rich__(self) -> Any:
        """The message, if there is one, above the bars."""
        from rich.console import Group
        from rich.text import Text

        bars = self.progress.get_renderable()
        return Group(Text(printable(self.message), style="dim"), bars) if self.message else bars

    def listen(self, event: Any) -> None:
        """Show one event of progress: phase, done, total, message, and the group if there are several models."""
        group, phase = getattr(event, "group", ""), str(event.phase)
        if getattr(event, "parts", 0):
            phase = f"{phase} {event.part}/{event.parts}"
        bar = self._bars.get((group, phase))
        if bar is None:
            if self._latest is not None and self.progress.tasks[self._latest].completed:
                # How much there is to do is an estimate; one that has not begun encloses the phases after it.
                self.progress.update(self._latest, completed=self.progress.tasks[self._latest].total)
            if group in self._groups:  # a comparison has one line for each model
                self.progress.update(self._groups[group][1], visible=False)
            number = 1 + len(self._groups if group else self._bars)
            number = self._groups[group][0] if group in self._groups else number
            title = f"{number}. {printable(group or phase)}"
            bar = self._bars[group, phase] = self.progress.add_task(title, total=event.total, message="")
            # The first event of a phase arrives after some of its work: the phase began when the one before ended.
            self.progress.tasks[-1].start_time = self._before
            if group:
                self._groups[group] = (number, bar)
        detail = event.message.removeprefix(f"{event.phase}, ")
        said = ", ".join(part for part in (phase if group else "", detail) if part)
        self.message = said if len(said) > _LONG_MESSAGE else ""
        short = "" if self.message else printable(said)
        self.progress.update(bar, completed=event.done, total=event.total, message=short)
        self._before, self._latest = self.progress.get_time(), bar


WIDTH = 100  # of a summary
_LABEL = 12
_LEADS = 4  # lead times that are shown
NAIVE = ("persistence", "drift", "mean", "smoothing", "last change", "seasonal naive")
LINEAR = ("linear", *NAIVE)  # parts of which none is chaotic


def summary(
    layout: Layout,
    recipe: Recipe,
    report: FitReport,
    training: TrainingFingerprint,
    flow: Flow | None = None,
    width: int = WIDTH,
) -> str:
    """One labelled paragraph for each fact, in lines of at most `width` characters; `flow` is the step's."""
    wrapper = textwrap.TextWrapper(
        width, subsequent_indent=" " * (_LABEL + 2), break_long_words=False, break_on_hyphens=False
    )
    lines = [f"LensForecaster, recipe {recipe.recipe!r}"]
    for label, text in _facts(layout, recipe, report, training, flow):
        lines += wrapper.wrap(f"  {label:<{_LABEL}}{text}")
    return "\n".join(lines).replace("\xa0", " ")


def _facts(
    layout: Layout, recipe: Recipe, report: FitReport, training: TrainingFingerprint, flow: Flow | None
) -> Iterator[tuple[str, str]]:
    """Label and text of each paragraph."""
    yield "data", _data(layout, report)
    yield "trained on", _rows(report, training)
    if not math.isnan(report.noise):
        noise = min(report.noise, 1.0)  # the estimate may be larger than what it is a part of
        size = f"{noise:.2g} of the states' spread, {report.noise_of_increments:.2g} of one step's change"
        yield "noise", f"found, about {size}" if report.noisy else f"none that matters (at most {size})"
    yield "step", _step(layout, report, flow)
    yield "network", _network(recipe, report, flow)
    yield "parameters", _parameters(report, flow)
    if not math.isnan(report.held_out_nmse):
        yield "held out", _held_out(report)
    for line in _by_lead(report):
        yield "", line
    if report.coverage_90 is not None:
        yield "intervals", f"90 % intervals cover {100 * report.coverage_90:.0f}\xa0% of held-out states"
    if report.exponent is not None:
        time = human_time(1.0 / report.exponent, layout.time_unit)
        yield "chaos", f"neighbouring rollouts separate by a factor e in about {time} (one Lyapunov time)"
    if report.coverage is not None and report.correction_weight:
        inside = f"{100 - 100 * report.coverage:.1f}\xa0% of hidden positions"
        yield "coverage", f"{inside} lie between the control points on the training data"
    yield "time", f"{report.seconds:.1f} s on {recipe.device}, random_state {recipe.seed}"
    for note in report.notes:
        yield "note", note


def _data(layout: Layout, report: FitReport) -> str:
    many = "one trajectory" if report.trajectories == 1 else f"{report.trajectories:,} trajectories"
    forced = f", known inputs {', '.join(layout.input_names)}" if layout.input_names else ""
    early = f" (or the first {report.input_lags} rows)" if report.input_lags else ""
    trained = " trained" if report.held_out_rows else ""
    more = ("touches", "was") if report.left_out == 1 else ("touch", "were")
    gaps = f"; {report.left_out:,} more {more[0]} a gap{early} and {more[1]} left out" if report.left_out else ""
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


def _step(layout: Layout, report: FitReport, flow: Flow | None) -> str:
    looks = "the present state" if report.history == 1 else f"the last {report.history} states"
    looks = f"looks at {'logarithms of ' if report.logarithms else ''}{looks}"
    looks += f" and {report.input_lags} earlier values of each known input" if report.input_lags else ""
    if report.part in NAIVE:
        return f"{looks}; {_naive(report)} alone, no linear part"
    growth = report.spectral_radius
    grows = f", spectral radius {growth:.6g}" if math.isfinite(growth) else ""
    if report.structure.get("members"):
        return f"{looks}; the weighted mean of {len(report.structure['members'])} linear maps in float64{grows}"
    if report.structure.get("differences"):
        season = f"the {report.structure['naive']} of {report.structure['season']} steps"
        lags = report.structure["differences"]
        apart = "the last difference" if lags == 1 else f"the last {lags} differences"
        return f"{looks}; {season} and fitted weights of {apart} to it, in float64{grows}"
    near = "" if report.radius is None else f" within {report.radius} grid point{'s' * (report.radius != 1)}"
    if _closed_form(report, flow):
        return f"{looks}{near}; a {_closed_form(report, flow, degree=True)} in float64"
    if flow is not None:  # lenses stand beside it
        return f"{looks}; a {flow.description(degree=True)} and a linear map in float64"
    if report.ridge is None:
        return f"{looks}; no linear part"
    what = "a convolution" if layout.space and report.radius is not None else "a linear map"
    return f"{looks}{near}; {what} in float64 with ridge {report.ridge:.2g}{grows}"


def _naive(report: FitReport) -> str:
    """The simple method that is the whole step, with its season."""
    shape = report.structure
    if report.part != "seasonal naive" or not shape.get("season"):
        return report.part
    constants = shape.get("smoothing") or [1]
    count = constants[0] if shape["naive"] in ("season", "change") else 1
    mean = f", the mean of the last {count:g}" if count > 1 else ""
    decays = shape["naive"] == "season" and len(constants) > 1
    decaying = ", and a decaying part of the last difference" if decays else ""
    drift = ", with drift" if report.linear_parameters else ""
    return f"seasonal naive (seasons of {shape['season']} steps{mean}{decaying}{drift})"


def _closed_form(report: FitReport, flow: Flow | None, *, degree: bool = False) -> str:
    """The nonlinear closed form that is the whole step, in words; empty if there is another part or none."""
    if report.correction_weight or report.part not in ("polynomial", "flow"):
        return ""
    if flow is not None:
        return flow.description(degree)
    return f"polynomial of degree {report.degree}" if degree else "polynomial"


def _network(recipe: Recipe, report: FitReport, flow: Flow | None) -> str:
    if _closed_form(report, flow):
        return f"none: a {_closed_form(report, flow, degree=True)} did best on held-out rollouts"
    if not report.model or not report.correction_weight:
        best = "this" if report.part in NAIVE else "the linear part"
        return f"none: no network did better than {best} on held-out rollouts"
    names = ("width", "depth", "basis", "optical_length")
    sizes = [(name.replace("_", " "), getattr(report, name)) for name in names]
    listed = ", ".join(f"{name} {value:g}" for name, value in sizes if value is not None)
    many = "one" if report.members == 1 else f"the mean of {report.members}"
    networks = f"{many} of kind {report.model!r} ({listed})"
    if report.part == "lens":
        drawn = "drawn and trained" if report.structure.get("factors") else "drawn"
        rest = "" if flow is None else " for what the vector field leaves over"
        return f"{networks}; lenses {drawn}, readout solved in closed form{rest}"
    tuned = f", fine-tuned over {report.unroll} steps" if report.unroll else ""
    weight = "" if recipe.recipe == "paper" else f"correction weight {report.correction_weight:.3g}, "
    return f"{networks}; {weight}{report.updates:,} updates{tuned}"


def _parameters(report: FitReport, flow: Flow | None) -> str:
    if report.part in NAIVE:
        return f"{report.parameters:,}"
    apart = report.parameters_per_member and report.correction_weight
    each = f"{report.parameters_per_member:,} in each network, " if apart else ""
    beside = "" if flow is None else f" and the {flow.description()}"
    solved = _closed_form(report, flow) or f"linear part{beside}"
    return f"{report.parameters:,} ({each}{report.linear_parameters:,} in the {solved})"


def _held_out(report: FitReport) -> str:
    count = len(report.candidates)
    tried = f"; {counted(count, 'candidate')} tried" if count else ""
    apart = report.part not in LINEAR and not math.isnan(report.linear_nmse)
    error, alone = f"{report.held_out_nmse:.3g}", f"{report.linear_nmse:.3g}"
    beside = f" (linear part alone {alone})" if apart and alone != error else ""
    steps = counted(report.held_out_steps, "step")
    return f"normalised mean square error {error}{beside}, averaged over lead times up to {steps}{tried}"


def _by_lead(report: FitReport) -> list[str]:
    """Errors at a few lead times, a line for the model and for each simple method beside it."""
    from lln.fit.choice.holdout import lead_columns  # not above: the command line shows progress without torch

    if not report.skill or not report.lead_times:
        return []
    places = lead_columns(report.lead_times, _LEADS)
    errors = {OURS if name == "model" else name: [values[k] for k in places] for name, values in report.skill.items()}
    alone, whole = (list(map(number, errors.get(name, ()))) for name in ("linear", OURS))
    if report.part in LINEAR and alone == whole:
        errors.pop("linear", None)  # it is the model
    # Spaces that do not break keep a row on its line.
    return [line.replace(" ", "\xa0") for line in lead_lines([report.lead_times[k] for k in places], errors)]


def lead_lines(leads: Sequence[int], errors: Mapping[str, Sequence[float]]) -> list[str]:
    """Errors by lead time as lines of text, a line for each name."""
    width = max(map(len, errors))
    rows = {"steps ahead": [f"{lead}" for lead in leads], **{name: map(number, row) for name, row in errors.items()}}
    return [f"{name:<{width}}{''.join(f'{cell:>10}' for cell in row)}" for name, row in rows.items()]
