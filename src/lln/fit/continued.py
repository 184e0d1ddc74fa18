"""A fit continued on new data: the structure that was chosen stays, its weights are solved again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lln.core.threads import one_thread
from lln.data.series import Dataset
from lln.data.stream import with_input_lags
from lln.fit.choice.holdout import folds
from lln.fit.choice.logarithms import Logarithms, States
from lln.fit.closed.choices import ClosedChoice
from lln.fit.closed.forms import DRAWS, ClosedForms
from lln.fit.defaults import VALIDATION
from lln.fit.flows.search import FlowChoice
from lln.fit.learn import Field, learn
from lln.fit.options import Fit, FitReport, Recipe
from lln.fit.prepare import FrameChoice, Preparer
from lln.step.dense import DenseStep


@one_thread
def continue_fit(
    dataset: Dataset,
    recipe: Recipe,
    report: FitReport,
    *,
    field: Field = "auto",
    progress: Callable[[Any], None] | None = None,
) -> Fit:
    """Fit the structure of an earlier fit to other data.

    A closed form is solved again, with the lags, degree and ridge that were chosen; scores and intervals stay those of
    the earlier fit. A trained network is trained again in the frame and with the sizes that were chosen.

    Args:
        dataset: all rows to learn from, the earlier ones included if they still count.
        recipe: of the earlier fit, filled in.
        report: of the earlier fit.
        field: how grids are treated.
        progress: callback that receives an Event.
    """
    if not report.structure:
        return learn(dataset, recipe, field=field, progress=progress)
    given, dataset = dataset, with_input_lags(dataset, report.input_lags)
    seen = Logarithms(dataset) if report.logarithms else States(dataset)
    dataset = seen.dataset
    began, preparer = time.perf_counter(), Preparer(dataset)
    ready = preparer.prepare(None, report.history)
    if "kind" in report.structure:
        choice = ClosedChoice(**{**report.structure, "factors": tuple(report.structure.get("factors", ()))})
        if report.structure.get("flow"):
            choice = replace(choice, flow=FlowChoice(**report.structure["flow"]))
        fold = folds(dataset, recipe.validation or VALIDATION, report.history)[-1]
        forms = ClosedForms(preparer, fold, ready.units.scale, recipe.seed, _silent, noisy=report.noisy)
        step = forms.step(choice, None, draws=DRAWS)
    else:
        step = DenseStep(preparer.linear(None, FrameChoice.from_structure(report.structure)))
    low, high = ((side - step.frame.mean) / step.frame.scale for side in (ready.low, ready.high))
    note = f"Solved again on {ready.pairs:,} pairs; scores and intervals are those of the earlier fit."
    notes = [one for one in report.notes if not one.startswith("Solved again")]
    report = replace(
        report,
        trajectories=len(dataset.series),
        pairs=ready.pairs,
        left_out=ready.left_out,
        region=(low.tolist(), high.tolist()),
        training_rows=tuple((index, 0, len(one)) for index, one in enumerate(dataset.series)),
        held_out_rows=(),
        source=dataset.source,
        notes=(*notes, note),
    )
    fit = seen.fit(Fit(step, recipe, report))
    return replace(fit, report=replace(fit.report, dataset=given.digest(), seconds=time.perf_counter() - began))


def _silent(done: int, total: int, text: str) -> None:
    del done, total, text
