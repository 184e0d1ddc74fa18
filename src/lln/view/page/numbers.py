"""The page's tables: what the model is, and how it came about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lln import __version__
from lln.core.provenance import version_of
from lln.models import LensNetwork
from lln.models.field import FieldLensNetwork
from lln.view.page.payload import AnySurrogate

if TYPE_CHECKING:
    from lln.forecaster.forecaster import LensForecaster

# What the report of a fit calls things, and what the page does.
_REPORT = {
    "trajectories": "trajectories",
    "pairs": "pairs that trained",
    "left_out": "pairs left out for gaps",
    "noise": "noise, against the states",
    "share": "share of the network",
    "updates": "updates",
    "unroll": "steps of fine-tuning",
    "seconds": "seconds",
    "held_out_steps": "steps of held-out rollouts",
    "held_out_nmse": "their error (NMSE)",
    "linear_nmse": "the same, linear part alone",
    "spectral_radius": "spectral radius of the linear part",
}


_KINDS: dict[type, str] = {LensNetwork: "lens network", FieldLensNetwork: "convolutional lens network"}


def subtitle_of(forecaster: LensForecaster, surrogate: AnySurrogate) -> str:
    """The model in one line."""
    layout = forecaster.layout_
    parts = [layout.listing(), f"time step {layout.dt:g}", _network_words(surrogate)]
    return " · ".join(parts)


def numbers_of(
    forecaster: LensForecaster, surrogate: AnySurrogate, truth: list[tuple[str, str]]
) -> list[tuple[str, list[tuple[str, str]]]]:
    """Titles and rows of every table; `truth` says what rollouts are held against."""
    frame, layout = surrogate.frame, forecaster.layout_
    model = [
        ("coordinates n", f"{frame.size}"),
        ("states a step looks at", f"{frame.history}"),
        ("known inputs", ", ".join(layout.input_names) or "none"),
        ("time step", f"{layout.dt:g}"),
        ("linear part", "yes" if frame.matrix.any() else "none"),
        *_network_rows(surrogate),
        ("parameters", f"{_parameters(forecaster, surrogate):,}"),
    ]
    report = forecaster.report_.record()
    training = [("data", layout.source)]
    left_out = () if frame.matrix.any() else ("linear_nmse", "spectral_radius")
    training += [
        (words, _shown(report[key], ","))
        for key, words in _REPORT.items()
        if report.get(key) is not None and key not in left_out
    ]
    if report.get("coverage") is not None:
        training.append(("hidden positions between the control points", f"{1 - report['coverage']:.2%}"))
    # What is None was left to the recipe, but for the ridge: there it means no linear part.
    recipe = [
        (key.replace("_", " "), _shown(value))
        for key, value in forecaster.recipe_.record().items()
        if value is not None or key == "ridge"
    ]
    versions = [("lln", __version__)]
    versions += [(name, version_of(name) or "not installed") for name in ("torch", "numpy")]
    tables = [("Model", model), ("Training", training), ("Recipe", recipe), ("Versions", versions)]
    if truth:
        tables.insert(1, ("Truth on this page", truth))
    return tables


def _network_words(surrogate: AnySurrogate) -> str:
    if not surrogate.members or not surrogate.frame.gain.any():
        return "linear part alone"
    first = surrogate.members[0]
    many = f"{len(surrogate.members)} × " if len(surrogate.members) > 1 else ""
    kind = _KINDS.get(type(first), type(first).__name__)
    basis = f", K = {first.basis}" if isinstance(first, LensNetwork | FieldLensNetwork) else ""
    return f"{many}{kind}, h = {first.width}, D = {first.depth}{basis}"


def _network_rows(surrogate: AnySurrogate) -> list[tuple[str, str]]:
    if not surrogate.members or not surrogate.frame.gain.any():
        return [("network", "none: the linear part is all there is")]
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


def _parameters(forecaster: LensForecaster, surrogate: AnySurrogate) -> int:
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
    return str(value)
