"""HDF5, NetCDF and Zarr files are read in a child process, so that a crash of their C libraries does no harm.

A hostile or damaged file can make the HDF5 library, or a decompressor, write to wrong addresses, loop forever or ask
for all memory. One child process reads all such files (`sandbox_worker`). It starts when the first is opened, lists the
arrays, and sends rows through a pipe as plain bytes. It may take `SECONDS` of processor time and `WAIT` seconds in all
for one answer, and `MEMORY` bytes. If it dies, the file is refused with an InputError, and the next request starts
another child. If this process dies, the child ends too. Answers are JSON and numbers; nothing is pickled.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError
from lln.data.read.store import Store, Variable, size_of

SECONDS = 60  # of processor time that the child may take for one answer
WAIT = 600  # seconds that one answer may take in all, also while it waits for the disk
MEMORY = 4 << 30  # bytes of address space that the child may take beyond what its libraries take
PART = 1 << 28  # bytes asked for at once; more comes in several answers
START = (
    "import sys, json; sys.path[:] = json.loads(sys.stdin.buffer.readline()); "
    "from lln.data.read.sandbox_worker import serve; serve(sys.argv[1:])"
)


class LibraryError(Exception):
    """The error of a library that could not read a file."""


def open_store(kind: str, path: Path) -> Store:
    """Open the file at `path` of this kind ("HDF5", "NetCDF" or "Zarr"); none of its variables is read yet."""
    file = _File(kind, path)
    said = file.listing
    variables = {name: _variable(file, name, one) for name, one in said["variables"].items()}
    return Store(str(path), variables, said["attrs"], partial(_arrays, kind, path))


def _arrays(kind: str, path: Path) -> Mapping[str, Any]:
    return {name: one.array for name, one in open_store(kind, path).variables.items()}


def _variable(file: _File, name: str, said: Mapping[str, Any]) -> Variable:
    dims = None if said["dims"] is None else tuple(said["dims"])
    if said["texts"] is not None:
        array: Any = np.array(said["texts"], dtype=object)
    else:
        array = Remote(file, name, tuple(said["shape"]), np.dtype(said["dtype"]))
    return Variable(array, dims, said["attrs"], said["coordinate"])


@dataclass(eq=False)
class Remote:
    """An array that the child reads: shape, dtype, and slices of it."""

    file: _File
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __getitem__(self, key: Any, /) -> NDArray[Any]:
        spans = self._spans(key if isinstance(key, tuple) else (key,))
        lengths = tuple(end - begin for begin, end, _ in spans)
        found = np.empty(lengths, dtype=self.dtype)
        axis = next((i for i, length in enumerate(lengths) if length > 1), None)
        if axis is None:
            found[...] = self._part(spans)
        else:
            begin, end, kept = spans[axis]
            step = max(1, PART * lengths[axis] // max(1, found.nbytes))
            for first in range(begin, end, step):
                last = min(first + step, end)
                part = self._part([*spans[:axis], (first, last, kept), *spans[axis + 1 :]])
                found[(slice(None),) * axis + (slice(first - begin, last - begin),)] = part
        return found[tuple(slice(None) if kept else 0 for _, _, kept in spans)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[...], dtype=dtype)

    def _spans(self, key: tuple[Any, ...]) -> list[tuple[int, int, bool]]:
        """First row, last row + 1 along each axis, and whether the axis stays."""
        spans = []
        given = () if key == (...,) else key
        for length, one in zip(self.shape, (*given, *[slice(None)] * (len(self.shape) - len(given))), strict=True):
            if isinstance(one, slice):
                begin, end, _ = one.indices(length)
                spans.append((begin, max(begin, end), True))
            else:
                spans.append((int(one), int(one) + 1, False))
        return spans

    def _part(self, spans: Sequence[tuple[int, int, bool]]) -> NDArray[Any]:
        shape = tuple(end - begin for begin, end, _ in spans)
        size = size_of(shape, self.dtype)
        if size == 0:
            return np.empty(shape, dtype=self.dtype)
        said, content = self.file.ask("read", size, name=self.name, spans=[(begin, end) for begin, end, _ in spans])
        if len(content) != size or tuple(said["shape"]) != shape:
            raise LibraryError(f"shape {tuple(said['shape'])} was read where {shape} was expected")
        return np.frombuffer(content, dtype=self.dtype).reshape(shape)


class _File:
    """A file that is open in the child; opened again after a restart of the child."""

    def __init__(self, kind: str, path: Path) -> None:
        self.kind, self.path = kind, path
        self._child: _Child | None = None
        self._number = 0
        with _access.lock:
            self.listing = self._open()

    def _open(self) -> dict[str, Any]:
        child = _access.current()
        place = {"path": str(self.path.absolute()), "source": str(self.path)}
        said, _ = child.ask(self.path, 0, do="open", kind=self.kind, **place)
        self._child, self._number = child, said["number"]
        weakref.finalize(self, child.forget, said["number"]).atexit = False
        return said

    def ask(self, do: str, size: int, **words: Any) -> tuple[dict[str, Any], bytes]:
        """The child's answer about this file, with at most `size` bytes."""
        with _access.lock:
            if self._child is None or self._child is not _access.current():
                self._open()
            assert self._child is not None
            return self._child.ask(self.path, size, do=do, number=self._number, **words)


class _Child:
    """The process, and the pipes to it; used by one thread at a time."""

    def __init__(self) -> None:
        self._closed: deque[int] = deque()
        words = [sys.executable, "-P", "-c", START, str(SECONDS), str(WAIT), str(MEMORY)]
        pipe, env = subprocess.PIPE, {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=env)
        self._to, self._from = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        self._said_first = json.dumps(sys.path).encode() + b"\n"

    @property
    def alive(self) -> bool:
        """Whether it can still be asked."""
        return self._process.poll() is None

    def ask(self, path: Path, size: int, /, **words: Any) -> tuple[dict[str, Any], bytes]:
        """The answer of the child; raises InputError or LibraryError if there is none."""
        words["closed"] = [self._closed.popleft() for _ in range(len(self._closed))]
        try:
            self._to.write(self._said_first + json.dumps(words).encode() + b"\n")
            self._to.flush()
            self._said_first = b""
            line = self._from.readline()
            said: dict[str, Any] = json.loads(line)
            content = self._from.read(said["bytes"]) if 0 < said["bytes"] <= size else b""
            if len(content) != said["bytes"]:
                raise ValueError("cut short")
        except BaseException as error:
            # Half an answer may be under way, also after Ctrl-C, so this child cannot be asked again.
            code = self.end()
            if isinstance(error, (OSError, ValueError, KeyError, TypeError)):
                raise InputError(f"{path}: {_death(code)}; it is damaged, so write or copy it again") from None
            raise
        if "input" in said:
            raise InputError(said["input"], topic=said["topic"])
        if "error" in said:
            raise LibraryError(said["error"])
        return said, content

    def forget(self, number: int) -> None:
        """Have a file closed: now if the child is idle, else with the next question."""
        self._closed.append(number)
        # A finalizer may come in the middle of an answer, even in this thread, so it never waits.
        if _access.child is self and _access.lock.acquire(blocking=False):
            try:
                with contextlib.suppress(InputError):
                    if self.alive:
                        self.ask(Path(), 0, do="close")
            finally:
                _access.lock.release()

    def end(self, *, now: bool = False) -> int:
        """Stop it, and say how it ended; `now` gives it no time to end by itself."""
        if now:
            self._process.kill()
        for pipe in (self._to, self._from):
            with contextlib.suppress(OSError):
                pipe.close()
        try:
            return self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def _death(code: int) -> str:
    limit = {-signal.SIGXCPU: SECONDS, -signal.SIGALRM: WAIT}.get(code)
    name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return (
        f"the library that reads it crashed ({name})" if limit is None else f"reading it did not end within {limit} s"
    )


@dataclass
class _Access:
    """The one child of this process, and the lock of its users."""

    child: _Child | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def current(self) -> _Child:
        """The child, started if there is none."""
        if self.child is not None and not self.child.alive:
            self.end()
        if self.child is None:
            self.child = _Child()
        return self.child

    def end(self) -> None:
        """Stop the child."""
        if self.child is not None:
            self.child.end(now=True)
            self.child = None

    def forked(self) -> None:
        """A forked process starts a child of its own: two cannot ask through one pipe."""
        if self.child is not None:
            self.child._process.returncode = 0  # it belongs to the process that started it
        self.child, self.lock = None, threading.Lock()


_access = _Access()
atexit.register(_access.end)
os.register_at_fork(after_in_child=_access.forked)
