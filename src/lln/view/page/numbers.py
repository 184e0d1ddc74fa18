"""The tables of the page: the model, its training, its options and the versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lln import __version__
from lln.core.provenance import version_of
from lln.forecaster.summary import LINEAR, NAIVE
from lln.models import LensNetwork
from lln.models.field import FieldLensNetwork
from lln.step.base import AnyStep
from lln.step.frame import PolynomialPart

if TYPE_CHECKING:
    from lln.forecaster.forecaster import LensForecaster

# Fields of the fit report, and their labels on the page.
_REPORT = {
    "trajectories": "trajectories",
    "pairs": "pairs that trained",
    "left_out": "pairs left out for gaps",
    "noise": "noise, against the states",
    "correction_weight": "correction weight of the network",
    "updates": "updates",
    "unroll": "steps of fine-tuning",
    "seconds": "seconds",
    "held_out_steps": "steps of held-out rollouts",
    "held_out_nmse": "their error (NMSE)",
    "linear_nmse": "the same, linear map alone",
    "spectral_radius": "spectral radius of the linear map",
}
_KINDS: dict[type, str] = {LensNetwork: "lens network", FieldLensNetwork: "convolutional lens network"}


def subtitle_of(forecaster: LensForecaster, surrogate: AnyStep) -> str:
    """The model in one line."""
    layout = forecaster.layout_
    return f"{layout.listing()} · time step {layout.step_length} · {_network_words(forecaster, surrogate)}"


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
        ("time step", layout.step_length),
        ("closed-form parts", ", ".join(_closed_forms(surrogate, forecaster.report_.part)) or "none"),
        *_network_rows(surrogate),
        ("parameters", f"{_parameters(forecaster, surrogate):,}"),
    ]
    report = forecaster.report_.record()
    training = [("data", layout.source)]
    left_out = set() if frame.matrix.any() else {"linear_nmse", "spectral_radius"}
    left_out |= set() if surrogate.corrected else {"correction_weight", "updates", "unroll"}
    same = _shown(report.get("linear_nmse"), ",") == _shown(report.get("held_out_nmse"), ",")
    left_out |= {"linear_nmse"} if same or forecaster.report_.part in LINEAR else set()
    training += [
        (words, _shown(report[key], ","))
        for key, words in _REPORT.items()
        if report.get(key) is not None and key not in left_out
    ]
    if report.get("coverage") is not None:
        training.append(("hidden positions between the control points", f"{1 - report['coverage']:.2%}"))
    # None means that the fit chose, except for the ridge: there it means no linear part.
    recipe = [
        ("random state" if key == "seed" else key.replace("_", " "), _shown(value))
        for key, value in forecaster.recipe_.record().items()
        if value is not None or key == "ridge"
    ]
    versions = [("lln", __version__), *((name, version_of(name) or "not installed") for name in ("torch", "numpy"))]
    tables = [("Model", model), ("Training", training), ("Recipe", recipe), ("Versions", versions)]
    if truth:
        tables.insert(1, ("Truth on this page", truth))
    return tables


def _network_words(forecaster: LensForecaster, surrogate: AnyStep) -> str:
    if not surrogate.corrected:
        return " + ".join(_closed_forms(surrogate, forecaster.report_.part)) or "persistence"
    first = surrogate.members[0]
    many = f"{len(surrogate.members)} × " if len(surrogate.members) > 1 else ""
    kind = _KINDS.get(type(first), type(first).__name__)
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
        found.append(frame.flow.words(degree=True))
    return found


def _network_rows(surrogate: AnyStep) -> list[tuple[str, str]]:
    if not surrogate.corrected:
        return [("network", "none: the closed-form parts did best on held-out rollouts")]
    first = surrogate.members[0]
    rows = [("networks in the ensemble", f"{len(surrogate.members)}")]
    rows += [("width h", f"{first.width}"), ("depth D", f"{first.depth}")]
    if isinstance(first, LensNetwork | FieldLensNetwork):
        optics = first.config()
        low, high = optics["control_range"]
        rows += [
            ("control points K", f"{first.basis}"),
            ("control range", f"{low:g} to {high:g}"),
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
