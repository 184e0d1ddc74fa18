"""`lln evaluate`: how far a model's rollouts are from data that it has not seen."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lln.cli.options import AsJson, DataFile, ModelFile, Selection, preset_names, several

if TYPE_CHECKING:
    from lln.evaluate.chaos import LyapunovSpectrum
    from lln.forecaster.scoring.evaluation import Evaluation


def evaluate(
    model: ModelFile,
    data: DataFile,
    selection: Selection,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Length of each rollout.", show_default="500, or what there is")
    ] = None,
    windows: Annotated[int, typer.Option(min=1, help="Largest number of rollouts, evenly spread.")] = 64,
    threshold: Annotated[
        float, typer.Option(help="Normalised RMSE of a state up to which a prediction counts as valid.")
    ] = 0.4,
    lyapunov: Annotated[
        bool,
        typer.Option("--lyapunov", help="Also estimate Lyapunov exponents, of the true system too if it is known."),
    ] = False,
    system: Annotated[
        str | None,
        typer.Option(
            help="With --lyapunov: the true system, as in lorenz-28.",
            show_default="what lln simulate noted in the data",
            autocompletion=preset_names,
        ),
    ] = None,
    metrics: Annotated[
        list[str] | None, typer.Option(help="More metrics, as in spectrum,mae; may be given several times.")
    ] = None,
    baselines: Annotated[
        list[str] | None,
        typer.Option(
            help="Simple methods to score beside the model, as in persistence,linear, or none.",
            show_default="all that the data allow",
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the error against lead time to this file: .png .svg .pdf.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Score a model's rollouts on data; rows that trained it are recognised and left out.

    Rows that helped to choose the model are scored separately. Where no other rows are left, training data is scored
    and the result says so. Simple methods are fitted to the training rows and scored from the same starts.
    """
    from lln.cli.console import echo, picture_file, read_for, read_model

    if plot is not None:
        picture_file(plot, model, data)
    forecaster = read_model(model)
    dataset = read_for(forecaster, data, selection)
    if sys.stderr.isatty() and baselines is None:
        echo("scoring, with simple methods fitted to the same rows (--baselines none is faster)", dim=True, err=True)
    found = forecaster.evaluate(
        dataset, steps=steps, windows=windows, threshold=threshold, metrics=several(metrics),
        baselines=_baselines(baselines),
    )  # fmt: skip
    named = dataset.system if system is None else system.lower()
    if plot is not None:
        from lln.plots.style import save_figure

        save_figure(found.plot(), plot)
    spectra = forecaster.lyapunov(dataset, system=named) if lyapunov or system is not None else {}
    if as_json:
        import json

        said = {"model": str(model), "data": str(data), **found.record()}
        typer.echo(json.dumps({**said, **_chaos(found, spectra, named)} if spectra else said, indent=2))
        return
    _show(found, plot)
    if spectra:
        _show_chaos(found, spectra, named)


def _baselines(names: list[str] | None) -> Any:
    """Names of baselines; all by default, none for the word none."""
    chosen = several(names)
    return "all" if chosen is None else () if chosen == "none" else chosen


def _show(found: Evaluation, plot: Path | None) -> None:
    """Print the scores, the errors by lead time, and what follows from them."""
    from lln.cli.console import echo, facts, say, show_table
    from lln.forecaster.comparison.result import left_out_words
    from lln.forecaster.scoring.scored_rows import CHOOSING, TRAINING

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
    if found.scored in (TRAINING, CHOOSING):
        say("for a score on unseen states give other data, or fit with --test 0.15 to keep some of these unseen")


def _chaos(found: Evaluation, spectra: dict[str, LyapunovSpectrum], named: str) -> dict[str, Any]:
    """Lyapunov exponents for the JSON document."""
    record: dict[str, Any] = {name: one.record() for name, one in spectra.items()}
    return {"lyapunov": {"system": named or None, **record}, "valid_lyapunov_times": _times(found, spectra)}


def _times(found: Evaluation, spectra: dict[str, LyapunovSpectrum]) -> float | None:
    """The valid prediction time in Lyapunov times of the true system; None if it is unknown or not chaotic."""
    true = spectra.get("true")
    return found.valid_prediction_time * true.largest if true is not None and true.largest > 0 else None


def _show_chaos(found: Evaluation, spectra: dict[str, LyapunovSpectrum], named: str) -> None:
    from lln.cli.console import say, show_table
    from lln.forecaster.scoring.lyapunov import lyapunov_table

    times = _times(found, spectra)
    if times is not None:
        typer.echo(f"valid prediction time in Lyapunov times of the true system: {times:.3g}")
    show_table(lyapunov_table(spectra, f"Lyapunov exponents per unit of time{f', {named}' if named else ''}"))
    if "true" not in spectra:
        say("the data does not say what it was simulated from; --system NAME adds the exponents of a known system")
