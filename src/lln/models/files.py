"""A network as one safetensors file: its tensors, and the configuration that rebuilds it as JSON metadata.

Nothing is pickled, so that opening a file never runs code. A file appears whole or not at all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from lln import __version__
from lln.core.errors import InputError, reason
from lln.core.safe_files import BLANK, BROKEN, KEY, broken, sealed, whole_file
from lln.models.base import StateNetwork
from lln.models.counting import comparator_cost, field_cost, lens_cost
from lln.models.factory import COMPARATORS, FIELD_MODELS, MODELS, build, name_of

FORMAT = 1


def save_model(model: StateNetwork, path: str | os.PathLike[str]) -> None:
    """Write `model` to `path`."""
    from safetensors.torch import save

    header = {"format": FORMAT, "lln": __version__, "model": name_of(model), "config": model.config()}
    tensors = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    with whole_file(Path(path)) as partial:
        partial.write_bytes(sealed(save(tensors, metadata={"lln": json.dumps(header), KEY: BLANK})))


def load_model(path: str | os.PathLike[str], device: str | torch.device = "cpu") -> StateNetwork:
    """Rebuild the network that `save_model` wrote to `path`."""
    header, tensors = _read(Path(path))
    try:
        check_config_size(header["model"], header["config"], tensors)
        model = build(header["model"], **header["config"])
        dtype = next(value.dtype for value in tensors.values() if value.is_floating_point())
        model.to(dtype).load_state_dict(tensors)
    except InputError as error:
        raise InputError(f"{path}: {error}", topic=error.topic) from error
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError, StopIteration) as error:
        raise InputError(
            f"{path}: its tensors and its configuration do not fit together ({reason(error)}); save the network again"
        ) from error
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
        raise InputError(
            f"{path}: not a whole safetensors file ({error}); was it cut short?", topic="not-a-model"
        ) from error
    if "lln" not in metadata:
        raise InputError(
            f"{path}: a safetensors file, but not one that lln wrote; it holds no lln configuration",
            topic="not-a-model",
        )
    if broken(path, metadata, "lln"):
        raise InputError(f"{path}: not a whole model file; {BROKEN}, so save the network again", topic="not-a-model")
    try:
        header: dict[str, Any] = json.loads(metadata["lln"])
        newer = header["format"] > FORMAT
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(
            f"{path}: its lln configuration is damaged ({reason(error)}); save the network again"
        ) from error
    if newer:
        raise InputError(
            f"{path}: written by lln {header.get('lln')} in format {header['format']}, this lln {__version__} reads up "
            f"to format {FORMAT}; update lln",
            topic="newer",
        )
    return header, tensors


def check_config_size(model: str, config: Mapping[str, Any], state: Mapping[str, torch.Tensor]) -> None:
    """Refuse a configuration whose network would be larger than the tensors that are there."""
    held = sum(tensor.numel() for tensor in state.values())
    if model not in MODELS and model not in FIELD_MODELS:  # a network of another package
        for key, value in config.items():
            if isinstance(value, int) and value > max(held, 1):
                raise ValueError(f"the configuration asks for {key} = {value}, the file holds {held} values")
        return
    sizes = {key: config[key] for key in ("n_in", "n_out", "width", "depth")}
    if model in COMPARATORS:
        wanted = comparator_cost(model, **sizes).parameters
    else:
        sizes |= {key: config[key] for key in ("basis", "initial_angle")}
        if model in FIELD_MODELS:
            sizes |= {"kernel": config["kernel"], "blocks": config["blocks"], "hidden": config["hidden"]}
            if config["blocks"] > held:
                raise ValueError(f"the configuration asks for {config['blocks']} blocks")
        wanted = (field_cost if model in FIELD_MODELS else lens_cost)(**sizes).parameters
    if wanted > held:
        raise ValueError(f"the configuration asks for {wanted} parameters, the file holds {held}")
