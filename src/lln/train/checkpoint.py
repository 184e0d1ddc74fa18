"""The state of a long job in one file that is replaced atomically, so that a killed job continues to the same result.

Safetensors and JSON: nothing is pickled, so that opening a file never runs code.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lln import __version__
from lln.core.errors import InputError, reason
from lln.core.safe_files import BLANK, BROKEN, KEY, broken, sealed, tidy, whole_file

FORMAT = 1
NAME = "lln-checkpoint"
EVERY = 10.0  # seconds between two savings of work in progress


def identity_of(values: Mapping[str, Any]) -> str:
    """A name for a job, from everything that its result depends on."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:32]


class Checkpoint:
    """What phases of one job have left behind: plain values and tensors, by the phase's name.

    A path of None keeps everything in memory. A file of another job (see `identity_of`) is refused.
    """

    def __init__(self, path: str | os.PathLike[str] | None, identity: str) -> None:
        self.path = None if path is None else Path(path)
        self.identity = identity
        self._values: dict[str, Any] = {}
        self._tensors: dict[str, dict[str, Tensor]] = {}
        self._written = time.monotonic()
        if self.path is not None and self.path.exists():
            try:
                self._read(self.path)
            except (InputError, OSError) as error:
                # Another process that did the same work may have ended and deleted it, and a third begun a new one.
                if self.path.exists() and not isinstance(error.__cause__ or error, FileNotFoundError):
                    raise

    def get(self, phase: str) -> tuple[Any, dict[str, Tensor]] | None:
        """What `phase` left, or None if it has not been there."""
        if phase not in self._values:
            return None
        return self._values[phase], self._tensors.get(phase, {})

    def put(self, phase: str, values: Any, tensors: Mapping[str, Tensor] | None = None) -> None:
        """Keep what `phase` left, in place of what it left before."""
        self._values[phase] = values
        self._tensors[phase] = {name: tensor.detach().cpu().contiguous() for name, tensor in (tensors or {}).items()}
        self._write()

    def drop(self, phase: str) -> None:
        """Forget `phase`; the next `put` writes that down."""
        self._values.pop(phase, None)
        self._tensors.pop(phase, None)

    @property
    def due(self) -> bool:
        """Whether it is time to save work in progress."""
        return self.path is not None and time.monotonic() - self._written >= EVERY

    def remove(self) -> None:
        """The job is done: delete the file, and what killed writers of it have left."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
            tidy(self.path)

    def _write(self) -> None:
        self._written = time.monotonic()
        if self.path is None:
            return
        from safetensors.torch import save

        header = {"format": FORMAT, "lln": __version__, "identity": self.identity, "values": self._values}
        flat = {f"{phase}/{name}": t for phase, tensors in self._tensors.items() for name, t in tensors.items()}
        with whole_file(self.path) as partial:
            partial.write_bytes(sealed(save(flat, metadata={NAME: json.dumps(header), KEY: BLANK})))

    def _read(self, path: Path) -> None:
        from safetensors import SafetensorError, safe_open

        try:
            path.open("rb").close()  # safetensors reports every file that it cannot open as missing
        except OSError as error:
            raise InputError(
                f"{path}: the checkpoint cannot be read ({error.strerror}); change its permissions or give another"
            ) from error
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                header = json.loads(metadata[NAME])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
            known, identity, values = _checked(header)
        except (SafetensorError, OSError, KeyError, ValueError, TypeError, OverflowError, RuntimeError) as error:
            raise InputError(
                f"{path}: not a whole checkpoint of lln ({reason(error)}); delete it to start anew"
            ) from error
        if broken(path, metadata, NAME):
            raise InputError(f"{path}: not a whole checkpoint of lln; {BROKEN}, so delete it to start anew")
        if known > FORMAT:
            raise InputError(
                f"{path}: a checkpoint of lln {header.get('lln')}, newer than this {__version__}; update lln",
                topic="newer",
            )
        if identity != self.identity:
            raise InputError(
                f"{path}: a checkpoint of another fit (other data or other options); delete it to start anew, or name "
                "another file"
            )
        self._values = values
        for name, tensor in tensors.items():
            phase, _, key = name.rpartition("/")
            self._tensors.setdefault(phase, {})[key] = tensor


def _checked(header: Any) -> tuple[int, str, dict[str, Any]]:
    """Format, identity and values of a checkpoint, each of its kind."""
    known, identity, values = header["format"], header["identity"], header["values"]
    if type(known) is not int or not isinstance(identity, str) or not isinstance(values, dict):
        raise ValueError("its header is damaged")
    return known, identity, values


def training_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Parameters, buffers and the optimizer's memory as flat tensors."""
    tensors = {f"model.{name}": value.detach().clone() for name, value in model.state_dict().items()}
    for index, parameter in enumerate(_parameters(optimizer)):
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer.{index}.{key}"] = torch.as_tensor(value).detach().clone()
    return tensors


def restore_training(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put model and optimizer back to where `training_state` found them."""
    model.load_state_dict(under("model.", tensors))
    for index, parameter in enumerate(_parameters(optimizer)):
        # Numbers stay where they are, but for the one that a fused optimizer keeps with its parameter.
        optimizer.state[parameter] = {
            key: (value.to(parameter.device) if value.ndim or key == "step" else value).clone()
            for key, value in under(f"optimizer.{index}.", tensors).items()
        }


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
