"""A file or folder that appears whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lln.core.errors import InputError


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """A path beside `target` to write to; what is there in the end takes the place of `target`, unless an error came.

    A kill in between leaves `target` as it was.
    """
    folder = target.parent
    if not folder.is_dir():
        raise InputError(f"{target}: there is no folder {folder} to write to; make it first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{target}: {folder} cannot be written to; choose another folder or change its permissions")
    partial = folder / f".{target.name}.{os.getpid()}.partial"
    _remove(partial)
    try:
        yield partial
        for path in (p for p in (partial, *partial.rglob("*")) if p.is_file()):
            with path.open("rb") as file:
                os.fsync(file.fileno())
        _put(partial, target)
    finally:
        _remove(partial)


def _put(partial: Path, target: Path) -> None:
    if not target.is_dir() and not partial.is_dir():
        partial.replace(target)
        return
    # A folder cannot be replaced in one go: the old one steps aside first.
    old = target.with_name(f".{target.name}.{os.getpid()}.old")
    _remove(old)
    if target.exists():
        target.rename(old)
    partial.rename(target)
    _remove(old)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
