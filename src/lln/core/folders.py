"""A folder to write to, asked for before the work begins rather than missed after it."""

from __future__ import annotations

import os
from pathlib import Path

from lln.core.errors import InputError


def output_folder(path: str | os.PathLike[str]) -> Path:
    """`path` as a folder that exists and can be written to; made if it is missing."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made a folder ({error.strerror}); choose another to write to") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{folder}: cannot be written to; choose another folder or change its permissions")
    return folder


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
