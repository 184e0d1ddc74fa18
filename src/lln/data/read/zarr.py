"""Zarr folders as stores. These functions run in the sandbox worker."""

from __future__ import annotations

import os
import stat
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from lln.core.errors import InputError
from lln.data.read.decode import decode
from lln.data.read.store import Store, Variable, check_claimed_size, open_store

MISSING_CHUNKS = 100  # largest ratio of claimed chunks to files
DEPTH = 8  # of nested groups


def open_zarr(path: Path) -> Store:
    """Open the arrays of a Zarr group (format 2 or 3), or one array, decoded by its CF attributes."""
    files, stored = _checked_files(path)
    try:
        arrays, attrs = _arrays(path)
    except ModuleNotFoundError:
        raise InputError(
            f"{path}: reading Zarr needs the package zarr; install it with `pip install 'lln[data]'`"
        ) from None
    check_claimed_size(arrays, stored, str(path))
    for name, array in arrays.items():
        if ".." in name.split("/") or ".." in str(array.path).split("/"):
            raise InputError(f"{path}: array {name!r} lies outside the folder, so it is not read; write the data again")
        # A chunk is read completely to read any part of it.
        chunk = SimpleNamespace(shape=array.shards or array.chunks, dtype=array.dtype)
        check_claimed_size({f"{name}, one chunk": chunk}, stored, str(path))
        if array.nchunks > MISSING_CHUNKS * (files + 100):
            raise InputError(
                f"{path}: array {name!r} claims {array.nchunks:,} chunks, but the folder has {files} files; it is "
                "damaged or was never filled, so write it again"
            )
    variables = {name: _variable(name, array, str(path)) for name, array in arrays.items()}
    return open_store(str(path), variables, attrs)


def _checked_files(path: Path) -> tuple[int, int]:
    """Count files and bytes; refuse pipes and devices, which may never end, and links that lead outside."""
    root, count, stored = path.resolve(), 0, 0
    for folder, folders, files in os.walk(path):
        for name in [*folders, *files]:
            entry = Path(folder, name)
            if entry.is_symlink() and not entry.resolve().is_relative_to(root):
                raise InputError(f"{path}: {entry.relative_to(path)} is a link that leads outside the folder; copy it")
            try:
                found = entry.stat()
            except OSError:
                continue  # a link that leads nowhere
            if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
                raise InputError(
                    f"{path}: {entry.relative_to(path)} is a pipe or a device and may never end; write the data again"
                )
            if stat.S_ISREG(found.st_mode):
                count, stored = count + 1, stored + found.st_size
    return count, stored


def _arrays(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    import zarr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        node = zarr.open(str(path), mode="r")
        return {"states": node} if isinstance(node, zarr.Array) else _walk(node), dict(node.attrs)


def _walk(group: Any, prefix: str = "", depth: int = DEPTH) -> dict[str, Any]:
    found = {prefix + name: array for name, array in group.arrays()}
    if depth:
        for name, inner in group.groups():
            found |= _walk(inner, f"{prefix}{name}/", depth - 1)
    return found


def _variable(name: str, array: Any, source: str) -> Variable:
    attrs = dict(array.attrs)
    dims = attrs.get("_ARRAY_DIMENSIONS") or getattr(array.metadata, "dimension_names", None)
    known = tuple(map(str, dims)) if dims and len(dims) == len(array.shape) and all(dims) else None
    if array.dtype.kind not in "fiubUSmM":
        # A damaged chunk of variable-length texts can ask for all memory, so they are not read.
        return Variable(np.empty(0, dtype=object), None, attrs, True)
    coordinate = known == (str(array.name or "").rpartition("/")[2],)
    return Variable(decode(name, array, attrs, source), known, attrs, coordinate)
