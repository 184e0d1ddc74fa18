"""Check where results will be written, before the work begins."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from lln.core.errors import InputError


def output_folder(path: str | os.PathLike[str]) -> Path:
    """`path` as a folder that exists and can be written to; it is made if it is missing."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made a folder ({error.strerror}); choose another to write to") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{folder}: cannot be written to; choose another folder or change its permissions")
    return folder


def check_target(path: Path) -> None:
    """Refuse a path at which no file can be made or replaced, whether or not there is one now."""
    folder = path.parent
    if not folder.is_dir():
        raise InputError(f"{path}: there is no folder {folder} to write to; make it first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{path}: {folder} cannot be written to; choose another folder or change its permissions")
    try:
        owner = path.lstat().st_uid
    except FileNotFoundError:
        return
    except OSError as error:  # such as a name that is too long for the file system
        raise InputError(f"{path}: cannot be written to ({error.strerror}); choose another name") from error
    status = folder.stat()
    if status.st_mode & stat.S_ISVTX and hasattr(os, "geteuid") and os.geteuid() not in (0, owner, status.st_uid):
        raise InputError(
            f"{path}: belongs to another user, and {folder} lets only the owner replace a file; choose another name"
        )


def cache_folder(name: str) -> Path | None:
    """This user's own folder for what can be made again, under `name`; None where others may write to it."""
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = base / "lln" / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except (OSError, RuntimeError):
        return None
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022):
        return None
    return folder
