"""Simulated trajectories, computed once: kept by their content in this process and in the user's cache folder.

A trajectory's name hashes everything that its numbers depend on: the equation's class and constants, start, step,
number of steps, dtype, the source text of the systems, NumPy's version and the machine. So a changed equation never
gets old numbers. Files appear whole or not at all and carry a hash of their content, so that many processes may share
the folder and a kill or a damaged disk costs no more than computing again.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import platform
import threading
from collections import OrderedDict
from dataclasses import fields, is_dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

import lln.systems
from lln.core.provenance import processor
from lln.core.safe_files import SUFFIX, UserCache
from lln.systems import System, simulate
from lln.systems.base import Array

disk = UserCache("trajectories")
MEMORY = 1 << 27  # bytes kept in this process
DISK = 1 << 30  # bytes kept in the folder
LARGEST = 1 << 26  # bytes of a trajectory that is worth keeping

_held: OrderedDict[str, Array] = OrderedDict()
_lock = threading.Lock()


def simulated_states(
    system: System, steps: int, *, starts: ArrayLike | None = None, dtype: str = "float32", dt: float | None = None
) -> Array:
    """What `simulate` returns, from the cache if the same was simulated before; the array is the caller's own.

    Right-hand sides given as functions are simulated every time, because their content has no digest.
    """
    compute = partial(simulate, system, steps, starts=starts, dtype=dtype, dt=dt)
    name = _name(system, steps, starts, dtype, dt)
    if name is None:
        return compute()
    with _lock:
        states = _held.get(name)
    if states is None:
        states = _load(name)
    if states is None:
        states = compute()
        _save(name, states)
    if states.nbytes <= LARGEST:
        with _lock:
            _held[name] = states
            _held.move_to_end(name)
            while sum(one.nbytes for one in _held.values()) > MEMORY:
                _held.popitem(last=False)
    return states.copy()


def _name(system: System, steps: int, starts: ArrayLike | None, dtype: str, dt: float | None) -> str | None:
    kind = type(system)
    if not is_dataclass(system) or not kind.__module__.startswith("lln.systems."):
        return None
    try:
        first = np.asarray(system.start() if starts is None else starts, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    content = {
        "class": f"{kind.__module__}.{kind.__qualname__}",
        "constants": {one.name: repr(getattr(system, one.name)) for one in fields(system)},
        "starts": [list(first.shape), hashlib.sha256(first.tobytes()).hexdigest()],
        "steps": repr(steps),
        "dtype": dtype,
        "dt": repr(dt),
        "code": _code(),
        "numpy": np.__version__,
        "machine": [platform.machine(), processor()],  # other vector units may round differently
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@lru_cache(maxsize=1)
def _code() -> str:
    """A hash of the source text of the systems."""
    folder = Path(lln.systems.__file__).parent
    text = b"".join(path.name.encode() + path.read_bytes() for path in sorted(folder.rglob("*.py")))
    return hashlib.sha256(text).hexdigest()


def _forget_lock() -> None:
    """A forked child may find the lock taken by a thread that it does not have."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_lock)


def _load(name: str) -> Array | None:
    content = disk.read(f"{name}.npy")
    if content is None:
        return None
    try:
        states: Array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    except ValueError:
        return None
    folder = disk.location()
    if folder is not None:
        with contextlib.suppress(OSError):
            os.utime(folder / f"{name}.npy")  # the least recently used goes first
    return states


def _save(name: str, states: Array) -> None:
    """Keep `states` on the disk if that is possible; nothing depends on it."""
    folder = disk.location()
    if folder is None or states.nbytes > LARGEST:
        return
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, states, allow_pickle=False)
    disk.write(f"{name}.npy", buffer.getvalue())
    _tidy(folder)


def _tidy(folder: Path) -> None:
    """Remove what was used longest ago once the folder is full, and what killed processes left."""
    entries = []
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            entries.append((path.stat().st_mtime, path.stat().st_size, path))
    newest = max((when for when, _, _ in entries), default=0.0)
    total = sum(size for _, size, _ in entries)
    for when, size, path in sorted(entries):
        left_behind = path.suffix == SUFFIX and when < newest - 3600
        if total > DISK or left_behind:
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size
