"""The child process of `sandbox`: opens files of data and sends the rows that are asked for."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError, reason
from lln.data.read.decode import plain
from lln.data.read.hdf5 import KEPT, TEXTS, open_hdf5, open_netcdf
from lln.data.read.store import Store, Variable
from lln.data.read.zarr import open_zarr

OPENERS = {"HDF5": open_hdf5, "NetCDF": open_netcdf, "Zarr": open_zarr}
WATCH = 0.5  # seconds between checks that the parent process exists


def serve(limits: Sequence[str]) -> None:
    """Answer requests on the standard input; `limits`: seconds of processor time, seconds in all, bytes of memory."""
    seconds, wait, memory = map(int, limits)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of a library must not be read as an answer
    held = Path("/proc/self/statm")
    taken = int(held.read_text().split()[0]) * resource.getpagesize() if held.exists() else 0
    _limit(resource.RLIMIT_AS, taken + memory)
    answer(sys.stdin.buffer, output, seconds, wait)


def _end_with(parent: int) -> None:
    """End this process when its parent is gone, also while a file keeps it waiting."""
    while os.getppid() == parent:
        time.sleep(WATCH)
    os._exit(1)


def answer(questions: IO[bytes], answers: IO[bytes], seconds: int | None = None, wait: int = 0) -> None:
    """Read requests, one a line, and write an answer to each: a line of JSON, and bytes where it says so."""
    opened: dict[int, Store] = {}
    for count, line in enumerate(questions):
        if seconds is not None:
            used = resource.getrusage(resource.RUSAGE_SELF)
            _limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + 1 + seconds)
            signal.setitimer(signal.ITIMER_REAL, wait)  # SIGALRM ends this process
        words = json.loads(line)
        for number in words["closed"]:
            opened.pop(number, None)
        said, content = _safely(words, opened, count)
        answers.write(json.dumps({**said, "bytes": len(content)}).encode() + b"\n")
        answers.write(content)
        answers.flush()
        if seconds is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)


def _limit(kind: int, value: int) -> None:
    """Set a soft limit within the hard one."""
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _safely(words: Mapping[str, Any], opened: dict[int, Store], number: int) -> tuple[dict[str, Any], Any]:
    try:
        if words["do"] == "open":
            store = OPENERS[words["kind"]](Path(words["path"]))
            variables = {name: _described(one) for name, one in store.variables.items()}
            attrs = {key: one for key, one in store.attrs.items() if isinstance(one, str)}
            opened[number] = store
            return {"attrs": attrs, "variables": variables, "number": number}, b""
        if words["do"] == "read":
            return _part(opened[words["number"]].variables[words["name"]], words["spans"])
    except InputError as error:
        message = str(error).replace(words.get("path", ""), words.get("source", ""))
        return {"input": message, "topic": error.topic}, b""
    except MemoryError:
        return {"error": "it asks for more memory than a file may"}, b""
    except Exception as error:  # every library has its own for a file that it cannot read
        return {"error": reason(error)}, b""
    return {}, b""


def _described(one: Variable) -> dict[str, Any]:
    """Everything about a variable but its numbers."""
    kind = np.dtype(one.array.dtype)
    texts = None
    if kind.hasobject:
        few = kind.kind == "O" and np.prod(one.array.shape) < TEXTS and len(one.array.shape) == 1
        texts = [str(plain(text)) for text in np.asarray(one.array)] if few else []
    return {
        "shape": [int(length) for length in one.array.shape],
        "dtype": kind.str,
        "dims": None if one.dims is None else list(one.dims),
        "attrs": {key: str(value) for key, value in one.attrs.items() if key in KEPT},
        "coordinate": bool(one.coordinate),
        "texts": texts,
    }


def _part(one: Variable, spans: Sequence[Sequence[int]]) -> tuple[dict[str, Any], Any]:
    """The numbers between `spans` along every axis, as bytes."""
    found: NDArray[Any] = np.asarray(one.array[tuple(slice(begin, end) for begin, end in spans)])
    return {"shape": list(found.shape)}, found.astype(one.array.dtype, copy=False).reshape(-1).view("u1")
