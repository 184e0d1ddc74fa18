"""Write a file or folder so that it appears whole or not at all."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lln.core.folders import check_target

try:
    import fcntl
except ImportError:  # pragma: no cover - not a POSIX system
    fcntl = None  # type: ignore[assignment]

SUFFIX = ".partial"
_EXCHANGE = 2  # flag of renameat2: swap two names in one operation
_HERE = -100  # AT_FDCWD
_OLD = ".old"  # entry of a work folder that holds the target while it is replaced
_LONGEST = 200  # bytes of a target's name that become part of the work folder's name


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """Give a path to write to; what is there at the end replaces `target`, unless an error was raised.

    The path lies in a hidden work folder beside `target`. The writer holds a lock on that folder, which the system
    releases when the writer ends in any way. The next writer of `target` removes work folders without a lock. Locks
    belong to open files, so this is right for threads, processes, containers and machines that share a disk.

    A new file gets the permissions of the user's mask. A file that is replaced keeps its permissions.
    """
    check_target(target)
    _tidy(target)
    work, lock = None, None
    try:
        work, lock = _work_folder(target)
        partial = work / target.name
        yield partial
        for path in (p for p in (partial, *partial.rglob("*")) if p.is_file()):
            with path.open("rb") as file:
                os.fsync(file.fileno())
        _put(partial, target)
        sync_folder(target.parent)
    except OSError as error:
        if error.errno is not None and (work is None or error.filename is None):  # a failed write names no file
            error.filename = os.fspath(target)
        raise
    finally:
        if work is not None:
            _discard(work, target)
        if lock is not None:
            os.close(lock)


def sync_folder(folder: Path) -> None:
    """Write the names in `folder` to the disk, where the file system supports it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _work_folder(target: Path) -> tuple[Path, int | None]:
    """Make a folder with an unpredictable name beside `target`, and lock it."""
    while True:
        work = target.parent / f"{_prefix(target)}{secrets.token_hex(8)}{SUFFIX}"
        work.mkdir(mode=0o700)
        if fcntl is None:
            return work, None
        with contextlib.suppress(FileNotFoundError):  # another writer may remove it before it is locked
            lock = os.open(work, os.O_RDONLY)
            _locked(lock)
            if work.is_dir():
                return work, lock
            os.close(lock)


def _prefix(target: Path) -> str:
    name = os.fsencode(target.name)
    return f".{target.name}." if len(name) <= _LONGEST else f".{hashlib.sha256(name).hexdigest()[:32]}."


def _locked(descriptor: int) -> bool:
    """Try to lock an open folder; False if another writer holds it or the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _put(partial: Path, target: Path) -> None:
    if not target.is_dir() and not partial.is_dir():
        if target.is_file():
            shutil.copymode(target, partial)
        partial.replace(target)
    elif not target.exists():
        partial.rename(target)
    elif not _exchanged(partial, target):
        # This system cannot replace a folder in one operation. `_discard` restores the old one after a failure.
        target.rename(partial.with_name(_OLD))
        partial.rename(target)


def _exchanged(one: Path, other: Path) -> bool:
    """Swap the names of two paths in one operation; False where the system cannot."""
    try:
        swap = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    return bool(swap(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0)


def _tidy(target: Path) -> None:
    """Remove the work folders of writers of `target` that were killed."""
    prefix = _prefix(target)
    if fcntl is None:
        return
    with contextlib.suppress(OSError):
        for path in list(target.parent.iterdir()):
            token = path.name.removeprefix(prefix).removesuffix(SUFFIX)
            if path.name == f"{prefix}{token}{SUFFIX}" and len(token) == 16 and path.is_dir() and not path.is_symlink():
                descriptor = os.open(path, os.O_RDONLY)
                try:
                    if _locked(descriptor):
                        _discard(path, target)
                finally:
                    os.close(descriptor)


def _discard(work: Path, target: Path) -> None:
    """Remove a work folder; a target that was set aside in it comes back if nothing took its place."""
    old = work / _OLD
    if old.exists() and not target.exists():
        old.rename(target)
    shutil.rmtree(work, ignore_errors=True)
