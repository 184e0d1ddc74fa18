"""A file or folder that appears whole or not at all."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import re
import secrets
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from lln.core.errors import InputError

_EXCHANGE = 2  # renameat2's flag: two names swap what they stand for, in one go
_HERE = -100  # its "relative to the working folder"


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """A path beside `target` to write to; what is there in the end takes the place of `target`, unless an error came.

    A kill in between leaves `target` as it was, and what was half written is removed by the next writer of `target`. A
    new file has the permissions that the user's mask gives, one that takes another's place has that one's.
    """
    folder = target.parent
    if not folder.is_dir():
        raise InputError(f"{target}: there is no folder {folder} to write to; make it first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{target}: {folder} cannot be written to; choose another folder or change its permissions")
    _tidy(target)
    # A name of its own for each writer: processes and threads may write the same target at once.
    partial = folder / f".{target.name}.{_host()}-{os.getpid()}-{secrets.token_hex(4)}.partial"
    try:
        yield partial
        for path in (p for p in (partial, *partial.rglob("*")) if p.is_file()):
            with path.open("rb") as file:
                os.fsync(file.fileno())
        _put(partial, target)
        sync_folder(folder)
    except OSError as error:
        if error.errno is not None and error.filename is None:  # a write does not say where it failed
            error.filename = os.fspath(target)
        raise
    finally:
        _remove(partial)


def sync_folder(folder: Path) -> None:
    """Have the names in `folder` on the disk, where the file system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _put(partial: Path, target: Path) -> None:
    if not target.is_dir() and not partial.is_dir():
        if target.is_file():
            shutil.copymode(target, partial)
        partial.replace(target)
    elif not target.exists():
        partial.rename(target)
    elif not _exchanged(partial, target):
        # A folder cannot be replaced in one go here: the old one steps aside first, and `_tidy` knows where it is.
        old = partial.with_suffix(".old")
        target.rename(old)
        partial.rename(target)
        _remove(old)


def _exchanged(one: Path, other: Path) -> bool:
    """Let two paths swap names in one go; False where the system cannot."""
    try:
        swap = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    return bool(swap(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0)


def _tidy(target: Path) -> None:
    """Remove what killed writers of `target` left on this machine, and put back what one of them had set aside."""
    ours = re.compile(rf"\.{re.escape(target.name)}\.{_host()}-(\d+)-[0-9a-f]+\.(partial|old)")
    with contextlib.suppress(OSError):
        left = [(path, ours.fullmatch(path.name)) for path in target.parent.iterdir()]
        for path, match in left:
            if match is None or _alive(int(match[1])):
                continue
            if match[2] == "old" and not target.exists():
                path.rename(target)
            else:
                _remove(path)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


@lru_cache(maxsize=1)
def _host() -> str:
    """This machine in a few letters: only here does the number of a process tell whether it still runs."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
