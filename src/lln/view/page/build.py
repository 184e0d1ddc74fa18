"""From a model and data to one HTML file that needs nothing else: no server, no network, no second file."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from lln import __version__
from lln.core.checks import whole
from lln.core.errors import InputError
from lln.data.series import Dataset, Series
from lln.data.windows import HORIZON
from lln.evaluate.rollout import Region
from lln.forecaster.fingerprint import Training
from lln.forecaster.layout import Layout
from lln.view.page.payload import AnySurrogate, Numbers, whole_payload

if TYPE_CHECKING:
    from lln.forecaster.forecaster import LensForecaster

# Numbers of test data that a page carries at most, so that it stays light enough to send by mail.
MOST_NUMBERS = 64_000


def build_page(
    surrogate: AnySurrogate,
    layout: Layout,
    runs: Sequence[Series],
    *,
    title: str,
    subtitle: str = "",
    steps: int = HORIZON,
    region: Region | None = None,
    numbers: Numbers = (),
) -> str:
    """The page as text.

    Args:
        surrogate: the learned step.
        layout: what its coordinates mean.
        runs: trajectories without gaps to start from, at least as long as the step's history; what follows
            the first start is shown as the truth.
        title: at the head of the page.
        subtitle: under it.
        steps: length of a rollout.
        region: the box that training covered; a rollout that leaves it is told so.
        numbers: tables for the end of the page: a title and rows of label and value for each.
    """
    if not runs:
        raise InputError("the page needs at least one trajectory or window to start from; got none")
    payload = whole_payload(
        surrogate,
        layout,
        runs,
        title=title,
        subtitle=subtitle,
        made=f"Made by lln {__version__}. Everything on this page is computed in your browser; it sends nothing.",
        steps=whole("steps", steps, 1),
        region=region,
        numbers=numbers,
    )
    return _filled(payload)


def forecaster_page(
    forecaster: LensForecaster,
    data: Dataset | None = None,
    *,
    title: str | None = None,
    steps: int = HORIZON,
    members: int | None = None,
) -> str:
    """The page of a fitted forecaster.

    Args:
        forecaster: the model.
        data: trajectories to hold its rollouts against, without the rows that trained where there are others; None
            starts where training ended, without a truth.
        title: None takes the name of the training data.
        steps: length of a rollout.
        members: how many of the ensemble's networks go into the page; None takes all.
    """
    from lln.view.page.numbers import numbers_of, subtitle_of

    surrogate = forecaster.surrogate_
    if members is not None:
        count = whole("members", members, 1)
        if count > len(surrogate.members):
            raise InputError(f"members = {count}, but this model has {len(surrogate.members)}; ask for fewer")
        surrogate = surrogate.replace(members=surrogate.members[:count])
    layout, truth = forecaster.layout_, []
    if data is None:
        runs = [Series(forecaster.last_window_, _mean_inputs(forecaster), name="end of the training data")]
        runs[0] = replace(runs[0], start=forecaster.last_time_ - (len(runs[0]) - 1) * layout.dt)
    else:
        layout.check(data)
        data, kind = unseen(data, forecaster.training_, surrogate.frame.history)
        truth = [("data", data.source), ("rows", kind)]
        runs = stretches(data, surrogate.frame.history)
    return build_page(
        surrogate,
        layout,
        runs,
        title=title or f"Optical bench: {layout.source}",
        subtitle=subtitle_of(forecaster, surrogate),
        steps=steps,
        region=forecaster.region_,
        numbers=numbers_of(forecaster, surrogate, truth),
    )


def _mean_inputs(forecaster: LensForecaster) -> Any:
    frame = forecaster.surrogate_.frame
    return frame.input_mean[None].repeat(frame.history, 0) if frame.inputs else None


def unseen(data: Dataset, training: Training, history: int) -> tuple[Dataset, str]:
    """The rows that did not train, the longest run of them first, and what they are; all rows where all of them did.

    A run starts from the `history` rows before it, which may have trained: they are given, not predicted.
    """
    parts, shown = [], False
    for index, one in enumerate(data.series):
        seen = training.seen(one)
        shown = shown or bool(seen.any())
        edges = np.flatnonzero(np.diff(np.concatenate([[True], seen, [True]]).astype(np.int8)))
        parts += [(index, max(0, first - history), last) for first, last in edges.reshape(-1, 2)]
    if not shown:
        return data, "new to the model"
    parts = [(index, first, last) for index, first, last in parts if last - first > history]
    if not parts:
        return data, "those it was trained on"
    runs = []
    for index, first, last in sorted(parts, key=lambda part: part[1] - part[2]):
        one = data.series[index]
        name = f"{one.name}, rows {first} to {last - 1}".lstrip(", ")
        runs.append(replace(one.cut(first, last), name=name, start=one.start + first * data.dt))
    return replace(data, series=tuple(runs)), "those that did not train"


def stretches(data: Dataset, history: int) -> list[Series]:
    """The parts of the data without a gap, as many and as long as a page can carry."""
    parts = data.stretches(history + 1)
    if not parts:
        raise InputError(
            f"{data.source}: no stretch of {history + 1} rows without a gap, which one step needs; give other data"
        )
    runs, room = [], MOST_NUMBERS
    for index, first, last in parts:
        one = data.series[index]
        rows = min(last - first, max(history + 1, room // data.size))
        states, inputs = one.rows(first, first + rows), one.input_rows(first, first + rows)
        alone = sum(part[0] == index for part in parts) == 1
        name = one.name if alone else f"{one.name}, rows {first} to {last - 1}"
        runs.append(Series(states, inputs, name=name, start=one.start + first * data.dt))
        room -= rows * data.size
        if room <= 0:
            break
    names = [run.name for run in runs]
    return [
        replace(run, name=f"{run.name} {k + 1}") if names.count(run.name) > 1 else run for k, run in enumerate(runs)
    ]


def _filled(payload: dict[str, Any]) -> str:
    """The template with everything in it. Scripts and styles run only if they hash to what the policy names."""
    folder = files("lln.view.page")
    parts = {name: (folder / file).read_text("utf-8") for name, file in _FILES.items()}
    script = parts["script"]
    if "</script" in script.lower() or "<!--" in script:
        raise AssertionError("the bundle must not end its own script element")
    parts["payload"] = _safe_json(payload)
    parts["policy"] = (
        f"default-src 'none'; script-src {_hash(script)} 'wasm-unsafe-eval'; style-src {_hash(parts['style'])}; "
        "worker-src blob:; base-uri 'none'; form-action 'none'"
    )
    return re.sub("@(policy|style|payload|script)@", lambda found: parts[found[1]], parts["template"])


_FILES = {"template": "template.html", "style": "page.css", "script": "bundle.js"}


def _safe_json(payload: dict[str, Any]) -> str:
    """JSON in which no character can end or start an element, whatever a name holds."""
    text = json.dumps(payload, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
