"""A network as one safetensors file: its tensors, and the configuration that rebuilds it as JSON metadata.

Nothing is pickled, so that opening a file never runs code. A file appears whole or not at all.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch

from lln import __version__
from lln.core.atomic import whole_file
from lln.core.errors import InputError
from lln.models.base import StateNetwork
from lln.models.factory import build, name_of

FORMAT = 1


def save_model(model: StateNetwork, path: str | os.PathLike[str]) -> None:
    """Write `model` to `path`."""
    from safetensors.torch import save

    header = {"format": FORMAT, "lln": __version__, "model": name_of(model), "config": model.config()}
    tensors = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    with whole_file(Path(path)) as partial:
        partial.write_bytes(save(tensors, metadata={"lln": json.dumps(header)}))


def load_model(path: str | os.PathLike[str], device: str | torch.device = "cpu") -> StateNetwork:
    """Rebuild the network that `save_model` wrote to `path`."""
    header, tensors = _read(Path(path))
    try:
        model = build(header["model"], **header["config"])
        dtype = next(value.dtype for value in tensors.values() if value.is_floating_point())
        model.to(dtype).load_state_dict(tensors)
    except (KeyError, TypeError, RuntimeError, StopIteration) as error:
        raise InputError(f"{path}: its tensors and its configuration do not fit together ({error})") from error
    return model.to(device)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    if not path.is_file():
        raise InputError(f"{path}: no such file; expected a network written by lln.models.save_model")
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except SafetensorError as error:
        raise InputError(f"{path}: not a whole safetensors file ({error}); was it cut short?") from error
    if "lln" not in metadata:
        raise InputError(f"{path}: a safetensors file, but not one that lln wrote; it holds no lln configuration")
    try:
        header: dict[str, Any] = json.loads(metadata["lln"])
        newer = header["format"] > FORMAT
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path}: its lln configuration is damaged ({error}); save the network again") from error
    if newer:
        raise InputError(
            f"{path}: written by lln {header['lln']} in format {header['format']}, this lln {__version__} reads up to "
            f"format {FORMAT}; update lln"
        )
    return header, tensors
