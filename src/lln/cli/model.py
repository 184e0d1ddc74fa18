"""Commands on one model file: `lln rollout`, `evaluate`, `inspect`, `export`; `page`, `draw` and `animate`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lln.cli.console import (
    MODEL_SUFFIX,
    AsJson,
    DataFile,
    DataOut,
    ErrorPlot,
    ModelFile,
    Selection,
    Threshold,
    Windows,
    data_file,
    echo,
    facts,
    option,
    output_file,
    picture_file,
    preset_names,
    read_data,
    read_for,
    read_model,
    save_picture,
    say,
    several,
    show_json,
    show_table,
    stopwatch,
    switch,
    text_width,
)
from lln.core.errors import InputError
from lln.core.table import counted

if TYPE_CHECKING:
    from lln.evaluate.chaos import LyapunovSpectrum
    from lln.forecaster.forecaster import LensForecaster
    from lln.forecaster.scoring.evaluation import Evaluation


def rollout(
    model: ModelFile,
    out: DataOut,
    selection: Selection,
    steps: int = option("States after the start.", 500, min=1),
    start: Path | None = option("Start at the first state of each trajectory in this file.", None, "--from"),
    future: Path | None = option("File of known inputs for the steps after the training data."),
    sample: bool = switch("Roll out each member of the ensemble separately.", "--sample"),
    level: float | None = option("Add prediction intervals of this probability, from 0.5 to 0.95."),
    plot: Path | None = option("Draw the forecast, with its interval, to this file: .png .svg .pdf."),
) -> None:
    """Roll a model out and write the start and the states after it.

    Without --from it starts at the last state of the training data, of the last trajectory if there are several; a
    model with known inputs then needs --future. With --from, a model with a history of H states starts from the first H
    states of each trajectory and writes them first. Rows after a divergence are NaN.
    """
    from lln.data.read.formats import write
    from lln.forecaster.results import rollout_data

    data_file(out, model, start, future)
    picture_file(plot, model, out)
    forecaster = read_model(model)
    given = None if start is None else read_for(forecaster, start, selection)
    taken = stopwatch()
    dataset, outcomes, run = rollout_data(forecaster, given, steps, sample, level, future)
    write(out, dataset)
    save_picture(run.plot, plot)
    count = len(dataset.series)
    each = f"{count} rollouts of {steps:,} steps" if count > 1 else f"{steps:,} steps"
    echo(f"wrote {out} in {taken()}: {each}, dt = {forecaster.layout_.step_length}")
    if plot is not None:
        echo(f"wrote {plot}")
    last = forecaster.report_.last_trajectory
    if given is None and last:
        say(
            f"the rollout goes on from {last}, the last trajectory of the training data; for others give a file of "
            f"their last rows, {forecaster.history_} of each, by --from"
        )
    for series, outcome in zip(dataset.series, outcomes, strict=True):
        if outcome.step is not None:
            say(f"{series.name} {outcome}" if count > 1 else f"the rollout {outcome}")
    if any(outcome.step is not None for outcome in outcomes):
        echo("more: lln explain diverged", err=True)


def evaluate(
    model: ModelFile,
    data: DataFile,
    selection: Selection,
    steps: int | None = option("Length of each rollout.", shown="500, or what there is", min=1),
    windows: Windows = 64,
    threshold: Threshold = 0.4,
    lyapunov: bool = switch("Also estimate Lyapunov exponents, of the true system too if it is known.", "--lyapunov"),
    system: str | None = option(
        "With --lyapunov: the true system, as in lorenz-28.",
        shown="the one named in a file that lln simulate wrote",
        autocompletion=preset_names,
    ),
    metrics: list[str] | None = option("More metrics, as in spectrum,mae; may be given several times."),
    baselines: list[str] | None = option(
        "Simple methods to score beside the model, as in persistence,linear, or none.", shown="all that the data allow"
    ),
    plot: ErrorPlot = None,
    as_json: AsJson = False,
) -> None:
    """Score a model's rollouts on data; rows that trained it are recognised and left out.

    Rows that helped to choose the model are scored separately. If no other rows are left, training data is scored
    and the result says so. Simple methods are fitted to the training rows and scored from the same starts.
    """
    picture_file(plot, model, data)
    forecaster = read_model(model)
    dataset = read_for(forecaster, data, selection)
    if sys.stderr.isatty() and baselines is None:
        echo("scoring, beside simple methods (--baselines none is faster)", dim=True, err=True)
    beside = "all" if baselines is None else several(baselines)
    found = forecaster.evaluate(
        dataset, steps=steps, windows=windows, threshold=threshold, metrics=several(metrics),
        baselines=() if beside == "none" else beside,
    )  # fmt: skip
    named = dataset.system if system is None else system.lower()
    save_picture(found.plot, plot)
    spectra = forecaster.lyapunov(dataset, system=named) if lyapunov or system is not None else {}
    if as_json:
        record = {"model": str(model), "data": str(data), **found.record()}
        if spectra:
            exponents: dict[str, Any] = {name: one.record() for name, one in spectra.items()}
            record["lyapunov"] = {"system": named or None, **exponents}
            record["valid_lyapunov_times"] = _times(found, spectra)
        show_json(record)
        return
    _show(found, plot)
    if spectra:
        _show_chaos(found, spectra, named)


def _show(found: Evaluation, plot: Path | None) -> None:
    """Print the scores, the errors by lead time, and what follows from them."""
    from lln.forecaster.comparison.result import left_out_words
    from lln.forecaster.scoring.scored_rows import CHOICE, TRAINING

    echo(found.title)
    if found.warning:
        echo(found.warning, colour="yellow")
    facts(found.facts())
    if found.skill is not None:
        show_table(found.skill.table())
    for remark in found.remarks():
        echo(remark)
    for line in left_out_words("scored", {} if found.skill is None else found.skill.left_out):
        echo(line, dim=True)
    if plot is not None:
        echo(f"wrote {plot}")
    if found.scored in (TRAINING, CHOICE):
        say("for a score on unseen states give other data, or fit with --test 0.15 to keep some of these unseen")


def _times(found: Evaluation, spectra: dict[str, LyapunovSpectrum]) -> float | None:
    """The valid prediction time in Lyapunov times of the true system; None if it is unknown or not chaotic."""
    true = spectra.get("true")
    return found.valid_prediction_time * true.largest if true is not None and true.largest > 0 else None


def _show_chaos(found: Evaluation, spectra: dict[str, LyapunovSpectrum], named: str) -> None:
    from lln.forecaster.scoring.lyapunov import lyapunov_table

    times = _times(found, spectra)
    if times is not None:
        typer.echo(f"valid prediction time in Lyapunov times of the true system: {times:.3g}")
    show_table(lyapunov_table(spectra, f"Lyapunov exponents per unit of time{f', {named}' if named else ''}"))
    if "true" not in spectra:
        say("the data does not say what it was simulated from; --system NAME adds the exponents of a known system")


def inspect(model: ModelFile, as_json: AsJson = False) -> None:
    """Show what a model is: sizes, parameters, coverage, versions, and how it was trained."""
    forecaster = read_model(model)
    found = describe(forecaster, model)
    if as_json:
        show_json(found)
        return
    summary, *rest = forecaster.summary(text_width()).splitlines()
    echo(summary)
    facts(_lines(forecaster, found))
    echo("\n".join(rest))


def describe(forecaster: LensForecaster, path: Path) -> dict[str, Any]:
    """Everything about a model file as plain values."""
    from lln.forecaster.file import describe as header_of

    header = header_of(path)
    training = header.pop("training")
    return {
        "file": str(path),
        "bytes": path.stat().st_size,
        "model_parameters": forecaster.parameters_,
        "history": forecaster.history_,
        **header,
        "training": {key: training[key] for key in ("source", "rows", "held_out", "total")},
    }


def _lines(forecaster: LensForecaster, found: dict[str, Any]) -> dict[str, str]:
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items() if version)
    layout = forecaster.layout_
    lines = {
        "file": f"{found['file']}, {found['bytes']:,} bytes, format {found['format']}",
        "written by": f"lln {found['lln']} with {versions}",
        "states": f"{counted(layout.size, 'coordinate')}: {layout.listing()}",
        "time step": layout.step_length,
    }
    if layout.input_names:
        lags = forecaster.input_lags_
        early = f" (and {lags} earlier value{'s' if lags > 1 else ''} of each)" if lags else ""
        lines["inputs"] = ", ".join(layout.input_names) + early
    return lines


def export(
    model: ModelFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write (.onnx, .pt2), or a folder for C.")],
    format: str | None = option("onnx, c or torch.", None, "--format", "-f", shown="by the suffix"),  # noqa: A002
    rollout: bool = switch("ONNX: a whole rollout; its number of steps is an input.", "--rollout"),
    precision: str | None = option("C: precision of weights and lenses, float or double.", shown="as fitted"),
    name: str | None = option("C: prefix of the names of files, type and functions.", shown="model"),
) -> None:
    """Write one step, or a rollout, for other programs, run it, and print its difference from the float64 rollout.

    An export contains everything: scaling, history, inputs, closed-form parts and networks. C comes as one source file,
    one header and a self-test, without dependencies or allocation.
    """
    from lln.export.parts import export_format

    kind = export_format(out, format)
    if rollout and kind == "torch":
        raise InputError("--rollout is for --format onnx; torch.export writes one step, and C holds both")
    if kind != "c":
        for option, given in (("--precision", precision), ("--name", name)):
            if given is not None:
                raise InputError(f"{option} is for C; leave it out, or give a folder as --out")
        output_file(out, model)
    choices_of_c = {"precision": precision, "name": name or "model"}
    options: dict[str, dict[str, Any]] = {"onnx": {"rollout": rollout}, "c": choices_of_c, "torch": {}}
    done = read_model(model).export(out, kind, **options[kind])
    if kind != "c":
        what = "a rollout as one graph, with the number of steps as an input" if rollout else "one step"
        echo(f"wrote {out}: {what}")
        echo(str(done))
        return
    for file in done.files:
        echo(f"wrote {file}")
    if done.difference is None:
        echo("no C compiler was found here, so nothing was compared; elsewhere run:")
    else:
        echo(f"{done.difference}\nto compile and test it:")
    echo(f"  {done.command}", indent=4, command=True)


def page(
    model: ModelFile,
    selection: Selection,
    out: Path | None = option("HTML file to write.", None, "--out", "-o", shown="the model's name with .html"),
    show: bool = switch("Open the page in the browser.", "--open"),
    data: Path | None = option("Trajectories to start from and to compare rollouts with."),
    steps: int | None = option("States after the start.", shown="as many as can be compared, from 50 to 500", min=1),
    members: int | None = option("Number of networks of the ensemble to include.", shown="all of them", min=1),
    title: str | None = option("Title of the page.", shown="the name of the data"),
) -> None:
    """Write one HTML file that runs a model in the browser, with a start to drag and the rays inside.

    The file needs no server, no network and no other file. Training rows of --data are marked; the first start lies on
    other rows if there are any. Without --data a rollout starts where the training data ends, and there is no truth to
    compare it with.
    """
    from lln.core.safe_files import whole_file
    from lln.view.page import forecaster_page

    target = Path(f"{model.stem}.html") if out is None else out
    picture_file(target, model, data, what="page", suffixes=(".html", ".htm"))
    forecaster = read_model(model)
    truth = None if data is None else read_for(forecaster, data, selection)
    text = forecaster_page(forecaster, truth, title=title, steps=steps, members=members)
    with whole_file(target) as partial:
        partial.write_text(text, encoding="utf-8")
    echo(f"wrote {target}: {target.stat().st_size / 1e6:.2f} MB{'' if show else ', open it in a browser'}")
    if show:
        typer.launch(target.resolve().as_uri())


def draw(
    model: ModelFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="Picture to write: .svg, .png or .pdf.")],
    rays: int = option("How many rays to draw.", 12, min=1),
    member: int = option("Which member of the ensemble.", 0, min=0),
) -> None:
    """Draw a lens network at the last training state: embedding, rays, lenses with their strength, readout."""
    from lln.plots.style import save_figure
    from lln.view.drawing import architecture_figure
    from lln.view.rays import bench_of

    picture_file(out, model, what="drawing", suffixes=(".svg", ".png", ".pdf"))
    forecaster = read_model(model)
    count = len(forecaster.surrogate_.members)
    if count and member >= count:
        raise InputError(f"--member must be below {count}, the number of members of this model, got {member}")
    bench = bench_of(forecaster.surrogate_, forecaster.last_window_, member=member)
    inside = "the lens network inside"
    if forecaster.surrogate_.kind == "field":
        blocks = len(forecaster.surrogate_.members[0].blocks)
        which = f"the first of {blocks} blocks" if blocks > 1 else "the block"
        inside = f"{which} of lenses, at one point of the grid"
    figure = architecture_figure(bench, rays=rays, title=f"{model.stem}: {inside}")
    save_figure(figure, out)
    echo(f"wrote {out}: {min(rays, bench.width)} of {bench.width} rays through {bench.depth} lenses")


def animate(
    source: Annotated[Path, typer.Argument(help=f"A model ({MODEL_SUFFIX}) to roll out, or a file of trajectories.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Film to write: .gif, or .mp4 where ffmpeg is installed.")],
    selection: Selection,
    data: Path | None = option(
        "Data to show beside a model's rollout, which then starts on unseen rows if there are any."
    ),
    steps: int = option("Steps to show.", 500, min=1),
    frames: int = option("Pictures in the film.", 120, min=2),
    fps: int = option("Pictures a second.", 25, min=1, max=100),
) -> None:
    """Make a film of a rollout: a curve in phase space or over time, or a field as a curve or an image."""
    from lln.core.safe_files import whole_file
    from lln.forecaster.layout import Layout
    from lln.plots.animate import draw_frames, film_bytes, no_film
    from lln.view.scenes import data_scene, model_scene

    reason = no_film(out.suffix)
    if reason is not None:
        raise InputError(f"{out}: {reason}")
    output_file(out, source, data)
    if source.suffix == MODEL_SUFFIX:
        model = read_model(source)
        truth = None if data is None else read_for(model, data, selection)
        scene, layout = model_scene(model, truth, steps, source.stem), model.layout_
    elif data is not None:
        raise InputError("--data is shown beside a model's rollout; give a model, or one file of data alone")
    else:
        found = read_data([source], selection)
        scene, layout = data_scene(found, steps, source.stem), Layout.of(found)
    content = film_bytes(out.suffix, draw_frames(scene, frames), fps)
    with whole_file(out) as partial:
        partial.write_bytes(content)
    echo(f"wrote {out}: {scene.steps:,} states, dt = {layout.step_length}, {len(content) / 1e6:.2f} MB")
