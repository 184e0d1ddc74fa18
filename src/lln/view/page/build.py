"""Build the page: a model, data and tables as one HTML file that needs no server, no network and no other file."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
import tempfile
import webbrowser
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lln import __version__
from lln.core.errors import InputError, check_int
from lln.core.provenance import version_of
from lln.core.safe_files import whole_file
from lln.core.table import counted, plain
from lln.data.series import HORIZON, Dataset, Series
from lln.data.stream import with_input_lags
from lln.evaluate.metrics import VALID_RMSE
from lln.evaluate.rollout import Region
from lln.forecaster.layout import Layout
from lln.forecaster.summary import LINEAR, NAIVE
from lln.models import FieldLensNetwork, LensNetwork
from lln.step.frame import PolynomialPart
from lln.step.step import AnyStep
from lln.systems import EVERY_PRESET, System
from lln.view.page.equations import equations_of
from lln.view.page.payload import Run, data_part, model_part, packed, rounding_note, runs_of, system_part, time_unit

if TYPE_CHECKING:
    from lln.forecaster.forecaster import LensForecaster


# Fields of the fit report, and their labels on the page.
_REPORT = {
    "trajectories": "trajectories",
    "pairs": "training pairs",
    "left_out": "pairs left out at gaps",
    "noise": "noise, relative to the spread of the states",
    "correction_weight": "correction weight of the network",
    "updates": "updates",
    "unroll": "steps of fine-tuning",
    "seconds": "seconds",
    "held_out_steps": "steps of held-out rollouts",
    "held_out_nmse": "their error (NMSE), averaged over lead times",
    "linear_nmse": "the same, linear map alone",
    "spectral_radius": "spectral radius of the linear map",
}
_RECIPE = {"seed": "random state", "time_limit": "time limit in seconds"}  # other options have their own names
_KINDS: dict[type, str] = {LensNetwork: "lens network", FieldLensNetwork: "convolutional lens network"}


def subtitle_of(forecaster: LensForecaster, surrogate: AnyStep) -> str:
    """The model in one line."""
    layout = forecaster.layout_
    listing = layout.listing().replace(" x ", " × ") if layout.space else layout.listing()
    return f"{listing} · time step {_time_step(layout)} · {_network_words(forecaster, surrogate)}"


def numbers_of(
    forecaster: LensForecaster, surrogate: AnyStep, truth: list[tuple[str, str]]
) -> list[tuple[str, list[tuple[str, str]]]]:
    """Title and rows of every table; `truth` describes the data that rollouts are compared with."""
    frame, layout = surrogate.frame, forecaster.layout_
    model = [
        ("coordinates n", f"{frame.size:,}"),
        ("states a step looks at", f"{frame.history}{', their logarithms' * forecaster.report_.logarithms}"),
        ("known inputs", ", ".join(layout.input_names) or "none"),
        *([("earlier values of each", f"{forecaster.input_lags_}")] if forecaster.input_lags_ else []),
        ("time step", _time_step(layout)),
        ("closed-form parts", ", ".join(_closed_forms(surrogate, forecaster.report_.part)) or "none"),
        *_network_rows(surrogate, forecaster.recipe_.tried_parts),
        ("parameters", f"{_parameters(forecaster, surrogate):,}"),
    ]
    report = forecaster.report_.record()
    training = [("data", layout.source)]
    left_out = set() if frame.matrix.any() else {"linear_nmse", "spectral_radius"}
    left_out |= set() if surrogate.corrected else {"correction_weight", "updates", "unroll"}
    same = _shown(report.get("linear_nmse"), ",") == _shown(report.get("held_out_nmse"), ",")
    left_out |= {"linear_nmse"} if same or forecaster.report_.part in LINEAR else set()
    training += [
        (words.replace("linear map", "convolution") if surrogate.kind == "field" else words, _shown(report[key], ","))
        for key, words in _REPORT.items()
        if report.get(key) is not None and key not in left_out
    ]
    if report.get("coverage") is not None:
        training.append(("hidden positions between the control points", f"{1 - report['coverage']:.2%}"))
    # None means that the fit chose, except for the ridge: there it means no linear part.
    recipe = [
        (_RECIPE.get(key, key.replace("_", " ")), _shown(value))
        for key, value in forecaster.recipe_.record().items()
        if value is not None or key == "ridge"
    ]
    versions = [("lln", __version__), *((name, version_of(name) or "not installed") for name in ("torch", "numpy"))]
    tables = [("Model", model), ("Training", training), ("Recipe", recipe), ("Versions", versions)]
    if truth:
        tables.insert(1, ("Truth on this page", truth))
    return tables


def _time_step(layout: Layout) -> str:
    """The time step with its unit, which may stand in the name of the time: "time [s]"."""
    found = None if layout.time_unit else re.search(r"\[([^][]+)\]$", layout.time_name)
    return f"{layout.step_length} {found[1]}" if found else layout.step_length


def _network_words(forecaster: LensForecaster, surrogate: AnyStep) -> str:
    if not surrogate.corrected:
        return " + ".join(_closed_forms(surrogate, forecaster.report_.part)) or "persistence"
    first = surrogate.members[0]
    many = f"{len(surrogate.members)} × " if len(surrogate.members) > 1 else ""
    kind = _KINDS.get(type(first), forecaster.report_.model)
    basis = f", K = {first.basis}" if isinstance(first, LensNetwork | FieldLensNetwork) else ""
    return f"{many}{kind}, h = {first.width}, D = {first.depth}{basis}"


def _closed_forms(surrogate: AnyStep, part: str = "") -> list[str]:
    """The parts that were solved for, not trained, in words; a naive forecast by its name `part`."""
    if part in NAIVE:
        return [part]
    frame = surrogate.frame
    field = surrogate.kind == "field"
    found = [("convolution" if field else "linear map")] if frame.matrix.any() else []
    if frame.polynomial is not None:
        found.append(f"{'local ' if field else ''}polynomial of degree {PolynomialPart(frame.polynomial).degrees}")
    if not field and frame.flow is not None:
        found.append(frame.flow.description(degree=True))
    return found


def _network_rows(surrogate: AnyStep, tried: tuple[str, ...]) -> list[tuple[str, str]]:
    if not surrogate.corrected:
        best = {"lens", "network"} & set(tried)
        return [("network", "none: the closed-form parts did best on held-out rollouts" if best else "none was tried")]
    first = surrogate.members[0]
    rows = [("networks in the ensemble", f"{len(surrogate.members)}")]
    rows += [("width h", f"{first.width}"), ("depth D", f"{first.depth}")]
    if isinstance(first, LensNetwork | FieldLensNetwork):
        optics = first.config()
        low, high = optics["control_range"]
        rows += [
            ("control points K", f"{first.basis}"),
            ("control range", f"{low:g} to {high:g}".replace("-", "−")),
            ("propagation L of a layer", f"{optics['propagation']:.4g}"),
            ("lens scale s", f"{optics['lens_scale']:g}"),
            ("initial angle", optics["initial_angle"]),
        ]
    if isinstance(first, FieldLensNetwork):
        rows += [("blocks", f"{len(first.blocks)}"), ("kernel", " × ".join(map(str, first.kernel)))]
    return rows


def _parameters(forecaster: LensForecaster, surrogate: AnyStep) -> int:
    """What the forecaster counts, less the networks that the page leaves out."""
    absent = forecaster.surrogate_.members[len(surrogate.members) :]
    left_out: int = sum(p.numel() for member in absent for p in member.parameters())
    return int(forecaster.parameters_) - left_out


def _shown(value: Any, thousands: str = "") -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:{thousands}}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value))
    return str(value)


MADE = f"Made by lln {__version__}. Everything on this page is computed in your browser; it sends nothing."
FORMAT = 2  # of the data that the page's script reads
# Rollouts on a page have at least so many steps, unless the caller asks for fewer.
SHORTEST = 50


def build_page(
    surrogate: AnyStep,
    layout: Layout,
    runs: Sequence[Series | Run],
    *,
    title: str,
    subtitle: str = "",
    steps: int = HORIZON,
    region: Region | None = None,
    numbers: Sequence[tuple[str, Sequence[tuple[str, str]]]] = (),
    notes: Sequence[str] = (),
    lyapunov: float | None = None,
    system: System | None = None,
) -> str:
    """The page as text.

    Args:
        surrogate: the learned step.
        layout: what its coordinates mean.
        runs: trajectories without gaps to start from, at least as long as the step's history; the rows after a start
            are shown as the truth.
        title: title of the page.
        subtitle: line below the title.
        steps: length of a rollout.
        region: the box that training covered; the page says where a rollout leaves it.
        numbers: tables for the end of the page: a title and rows of label and value for each.
        notes: notes on what the page leaves out.
        lyapunov: largest Lyapunov exponent per unit of time, to give valid times in Lyapunov times.
        system: the true system; the page integrates it from starts that are not in the data.
    """
    if not runs:
        raise InputError("the page needs at least one trajectory or window to start from; got none")
    history = surrogate.frame.history
    steps, shown = check_int("steps", steps, 1), [Run.of(run, history) for run in runs]
    _, factor = time_unit(layout)
    box = None if region is None else {"low": plain(region.low), "high": plain(region.high)}
    return _filled(
        {
            "format": FORMAT,
            "title": title,
            "subtitle": subtitle,
            "made": MADE,
            "steps": steps,
            "threshold": VALID_RMSE,
            "region": box,
            "notes": [*notes, *rounding_note(sum(len(run.series) * run.series.size for run in shown))],
            "lyapunov": None if lyapunov is None else lyapunov * factor,
            "system": None if system is None else system_part(system, layout.dt),
            "equations": equations_of(surrogate, layout.dt / factor),
            "scale": packed(surrogate.frame.scale),
            "numbers": [{"title": head, "rows": [list(row) for row in rows]} for head, rows in numbers],
            **data_part(layout, shown, history, steps),
            **model_part(surrogate),
        }
    )


def forecaster_page(
    forecaster: LensForecaster,
    data: Dataset | None = None,
    *,
    title: str | None = None,
    steps: int | None = None,
    members: int | None = None,
) -> str:
    """The page of a fitted forecaster.

    Args:
        forecaster: the model.
        data: trajectories to compare rollouts with; the first rollout starts on rows that the model has not seen, if
            there are any. None starts where training ended, without a truth.
        title: title of the page; None takes the name of the training data.
        steps: length of a rollout; None takes four times the length of the held-out rollouts and at least as many as
            there are rows to compare with, from 50 to 500 steps.
        members: how many of the ensemble's networks go into the page; None takes all.
    """
    surrogate = forecaster.surrogate_
    if members is not None:
        count = check_int("members", members, 1)
        if count > (have := len(surrogate.members)):
            instead = f"ask for at most {have}" if have else "leave members out"
            raise InputError(f"members = {count}, but this model has {counted(have, 'network')}; {instead}")
        surrogate = surrogate.replace(members=surrogate.members[:count])
    layout = forecaster.layout_
    truth: list[tuple[str, str]] = []
    notes: list[str] = []
    system = None
    known = 0  # rows after the first start
    runs: list[Series | Run]
    if data is None:
        frame, window = surrogate.frame, forecaster.last_window_
        inputs = frame.input_mean[None].repeat(frame.history, 0) if frame.inputs else None
        start = forecaster.last_time_ - (len(window) - 1) * layout.dt
        label = forecaster.report_.last_trajectory
        name = f"end of the training data{f', {label}' if label else ''}"
        runs = [Series(window, inputs, name=name, start=start)]
    else:
        layout.check(data)
        data = with_input_lags(data, forecaster.input_lags_)
        found, kind, notes = runs_of(data, forecaster.training_, surrogate.frame.history)
        runs, truth = list(found), [("data", data.source), ("rows", kind)]
        known = max(len(run.series) - run.begin - 1 for run in found)
        system = EVERY_PRESET.get(data.system)
    lenses = surrogate.corrected and isinstance(surrogate.members[0], LensNetwork | FieldLensNetwork)
    return build_page(
        surrogate,
        layout,
        runs,
        title=title or f"{'Optical bench' if lenses else 'Forecast'}: {layout.title}",
        subtitle=subtitle_of(forecaster, surrogate),
        steps=_length(forecaster, known) if steps is None else steps,
        region=forecaster.region_,
        numbers=numbers_of(forecaster, surrogate, truth),
        notes=notes,
        lyapunov=forecaster.report_.exponent,
        system=system,
    )


def _length(forecaster: LensForecaster, known: int) -> int:
    """Steps of a rollout that are worth looking at: what can be compared, and a few times what the fit could judge."""
    judged = forecaster.report_.held_out_steps
    return min(HORIZON, max(SHORTEST, 4 * judged, known)) if judged else HORIZON


def _filled(payload: dict[str, Any]) -> str:
    """The template with everything in it. Scripts and styles run only if they hash to what the policy names."""
    names = {"template": "template.html", "style": "page.css", "script": "bundle.js"}
    parts = {name: (files("lln.view.page") / file).read_text("utf-8") for name, file in names.items()}
    script = parts["script"]
    if "</script" in script.lower() or "<!--" in script:
        raise AssertionError("the bundle must not end its own script element")
    parts["payload"] = _safe_json(payload)
    parts["policy"] = (
        f"default-src 'none'; script-src {_hash(script)} 'wasm-unsafe-eval'; style-src {_hash(parts['style'])}; "
        "worker-src blob:; base-uri 'none'; form-action 'none'"
    )
    return re.sub("@(policy|style|payload|script)@", lambda found: parts[found[1]], parts["template"])


def _safe_json(payload: dict[str, Any]) -> str:
    """JSON in which no character can end or start an element, whatever a name holds."""
    text = json.dumps(payload, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


class InlinePage:
    """A page that runs a model; notebooks show it in a frame.

    Args:
        text: the page as HTML.
        height: of the frame, in pixels.
    """

    def __init__(self, text: str, height: int = 900) -> None:
        self.text, self.height = text, check_int("height", height, 100)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page as one HTML file that needs no network and no other file."""
        with whole_file(Path(path)) as partial:
            partial.write_text(self.text, encoding="utf-8")
        return Path(path)

    def open(self) -> Path:
        """Write the page to a temporary file and open it in the default browser."""
        path = self.save(Path(tempfile.mkdtemp(prefix="lln-")) / "page.html")
        webbrowser.open(path.as_uri())
        return path

    def __repr__(self) -> str:
        return f"InlinePage({len(self.text) / 1e6:.2f} MB; save(path) writes it, open() shows it in a browser)"

    def _repr_html_(self) -> str:
        content = html.escape(self.text, quote=True)
        style = f"width:100%;height:{self.height}px;border:1px solid #ccc"
        return f'<iframe title="lln: a model that runs here" style="{style}" srcdoc="{content}"></iframe>'


def inline_page(model: LensForecaster, data: Any = None, *, height: int = 900, **options: Any) -> InlinePage:
    """The page of a fitted forecaster, for `LensForecaster.page`."""
    truth = data if data is None or isinstance(data, Dataset) else model.layout_.read(data)
    return InlinePage(forecaster_page(model, truth, **options), height)
