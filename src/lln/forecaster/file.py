"""The model file: one safetensors file with the tensors, and everything else as JSON in its header.

Nothing is pickled, so that opening a file never runs code. A file appears whole or not at all. Before any tensor is
read, the header's sizes are compared with the length of the file and with the configuration, so that a damaged or
hostile file is refused with one sentence before memory is allocated.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lln import __version__
from lln.core.errors import InputError, reason
from lln.core.safe_files import BLANK, BROKEN, KEY, broken, sealed, whole_file
from lln.fit.options import FitReport, Recipe
from lln.forecaster.forecaster import LensForecaster
from lln.forecaster.layout import Layout, TrainingFingerprint
from lln.step.step import step_of

FORMAT = 2  # 2 adds polynomials, flow and bounds
KIND = "forecaster"
_HEADER_BYTES = 64 << 20
Tensors = dict[str, np.ndarray[Any, Any]]
Entry = tuple[str, tuple[int, ...], int, int]  # of a tensor: its dtype, shape, first and last byte
_DTYPES = {name: np.dtype(kind) for name, kind in {"F64": "<f8", "F32": "<f4", "U64": "<u8", "I64": "<i8"}.items()}


def save(forecaster: LensForecaster, path: str | os.PathLike[str]) -> Path:
    """Write a fitted forecaster to `path`."""
    from safetensors.numpy import save as as_bytes

    forecaster._fitted()
    surrogate = forecaster.surrogate_
    target = Path(path)
    header = {
        "format": FORMAT,
        "kind": KIND,
        "lln": __version__,
        "versions": {"torch": str(torch.__version__), "numpy": np.__version__},
        "parameters": forecaster.get_params(),
        "recipe": forecaster.recipe_.record(),
        **surrogate.record(),
        "data": forecaster.layout_.record(),
        "training": forecaster.training_.record(),
        "last_time": forecaster.last_time_,
        "report": forecaster.report_.record(),
    }
    training = forecaster.training_
    tensors = {**surrogate.arrays(), "last_window": forecaster.last_window_, "training.marks": training.marks}
    if training.choosing is not None:
        tensors["training.choosing"] = training.choosing.marks
    content = as_bytes(
        {name: np.ascontiguousarray(value) for name, value in tensors.items()},
        metadata={"lln": json.dumps(header, allow_nan=False, default=_plain), KEY: BLANK},
    )
    with whole_file(target) as partial:
        partial.write_bytes(sealed(content))
    return target


def _plain(value: Any) -> Any:
    """NumPy's numbers, which people hand over as parameters, as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise InputError(
        f"a parameter of type {type(value).__name__} cannot be written to a model file; give plain numbers"
    )


def load(path: str | os.PathLike[str], device: str | torch.device = "cpu") -> LensForecaster:
    """The forecaster that `save` wrote to `path`, ready to use, its networks on `device`."""
    place, tensors = Path(path), Tensors()
    header, listing, begin = _head(place)
    with place.open("rb") as file:
        for name, (dtype, shape, first, last) in listing.items():
            file.seek(begin + first)
            # Sizes were compared with the file's length, so this reads no more than there is.
            tensors[name] = np.frombuffer(file.read(last - first), dtype=_DTYPES[dtype]).reshape(shape).copy()
    try:
        return _forecaster(header, tensors, torch.device(device))
    except InputError as error:
        raise InputError(f"{place}: {error}", topic=error.topic) from error
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
        raise InputError(
            f"{place}: its parts do not fit together ({type(error).__name__}: {reason(error)}); save the model again"
        ) from error


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The header of a model file as plain values, without reading its tensors."""
    return _head(Path(path))[0]


def _head(path: Path) -> tuple[dict[str, Any], dict[str, Entry], int]:
    """The lln header, every tensor's place, and where tensors begin."""
    if not path.is_file():
        what = "a folder" if path.is_dir() else "no such file"
        raise InputError(f"{path}: {what}; expected a model written by lln fit or lln.save")
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or not 2 <= length <= min(size - 8, _HEADER_BYTES):
            raise _not_a_model(path, "not a whole model file; it was cut short, or it is something else")
        text = file.read(length)
    try:
        outer = json.loads(text)
        listing = {name: _entry(entry, size - 8 - length) for name, entry in outer.items() if name != "__metadata__"}
        metadata = outer.get("__metadata__") or {}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        why = f"not a whole model file ({reason(error)}); it was cut short, or it is something else"
        raise _not_a_model(path, why) from error
    if not isinstance(metadata, dict) or "lln" not in metadata:
        raise _not_a_model(path, "a safetensors file, but not one that lln wrote; it holds no lln configuration")
    spans = sorted((first, last) for _, _, first, last in listing.values())
    if [first for first, _ in spans] != [0, *(last for _, last in spans[:-1])] or spans[-1][1] != size - 8 - length:
        why = "not a whole model file; its tensors and its length do not agree, was it cut short?"
        raise _not_a_model(path, why)
    header = _checked(path, metadata["lln"])  # first, since a newer format may be sealed in another way
    if broken(path, metadata, "lln"):
        raise _not_a_model(path, f"not a whole model file; {BROKEN}, so save the model again")
    return header, listing, 8 + length


def _not_a_model(path: Path, why: str) -> InputError:
    return InputError(f"{path}: {why}", topic="not-a-model")


def _entry(entry: Any, room: int) -> Entry:
    """One tensor's dtype, shape, first and last byte, if they agree with each other and with the file's length."""
    dtype, shape, (first, last) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    if dtype not in _DTYPES:
        raise ValueError(f"a tensor of kind {dtype!r}")
    if not all(type(number) is int and number >= 0 for number in (*shape, first, last)):
        raise ValueError("a tensor's size is not a whole number")
    if last > room or last - first != math.prod(shape) * _DTYPES[dtype].itemsize:
        raise ValueError("a tensor is longer than the file")
    return dtype, shape, first, last


def _checked(path: Path, text: Any) -> dict[str, Any]:
    """The lln header as data of a format that this version reads."""
    try:
        header: dict[str, Any] = json.loads(text)
        number, writer = int(header["format"]), str(header["lln"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise InputError(f"{path}: its lln configuration is damaged ({reason(error)}); save the model again") from error
    if header.get("kind") != KIND:
        raise InputError(f"{path}: it holds a network alone, not a forecaster; open it with lln.models.load_model")
    if number > FORMAT:
        raise InputError(
            f"{path}: written by lln {writer} in format {number}, this lln {__version__} reads up to format {FORMAT}; "
            "update lln",
            topic="newer",
        )
    if number < 1:
        raise InputError(f"{path}: its lln configuration is damaged (format {number}); save the model again")
    return header


def _forecaster(header: dict[str, Any], tensors: Tensors, device: torch.device) -> LensForecaster:
    """Formats 1 and 2."""
    layout = Layout.from_record(header["data"])
    if layout.space and layout.size != len(layout.channels) * math.prod(layout.space):
        raise ValueError(f"{layout.size} coordinates do not fill a grid of {layout.space}")
    if layout.filling is not None and len(layout.filling.mean) != layout.size:
        raise ValueError(f"gaps filled in for {len(layout.filling.mean)} coordinates of {layout.size}")
    surrogate = step_of(header, tensors, device)
    report = FitReport.from_record(header["report"])
    sizes = (surrogate.frame.size, surrogate.frame.inputs)
    if sizes != (layout.size, len(layout.input_names) * (1 + report.input_lags)) or report.input_lags < 0:
        raise ValueError(f"a step of {sizes[0]} coordinates and {sizes[1]} inputs does not fit the data")
    if getattr(surrogate.frame, "space", layout.space) != layout.space:
        raise ValueError(f"a step on a grid of {surrogate.frame.space} for data on a grid of {layout.space}")
    given = dict(header["parameters"])
    given["optical_length"] = given.pop("horizon", None) or given.get("optical_length")  # files up to November 2026
    forecaster = LensForecaster(**{**given, "device": str(device)})
    window = tensors["last_window"]
    if window.shape != (surrogate.frame.history, layout.size):
        raise ValueError(f"last_window has shape {window.shape}")
    marks = (tensors["training.marks"], tensors.get("training.choosing"))
    training = TrainingFingerprint.from_record(header["training"], *marks)
    recipe = Recipe.from_record(header["recipe"])
    return forecaster.assemble(surrogate, recipe, report, layout, training, window, float(header["last_time"]))
