"""Tell whether the process that runs a trial still exists.

The database of a search may be shared by containers that have the same host name and the same process numbers, so
neither identifies an owner. Each process has a random name. Beside a SQLite file it also holds a lock file under that
name, which the system releases when the process ends in any way. For other databases a trial whose last heartbeat is
old counts as lost.
"""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # pragma: no cover - not a POSIX system
    fcntl = None  # type: ignore[assignment]

OWNER, BEAT = "owner", "beat"
SILENT_SECONDS = 600.0
_SQLITE = "sqlite:///"
_held: dict[tuple[int, str], tuple[str, int]] = {}  # by process and database: the owner's name and its open lock


def own(trial: Any, url: str) -> None:
    """Store which process runs `trial`, and that it runs now."""
    trial.set_user_attr(OWNER, _name(url))
    trial.set_user_attr(BEAT, time.time())


def gone(trial: Any, url: str) -> bool:
    """Whether the owner of a running trial has ended."""
    owner = trial.user_attrs.get(OWNER)
    if not isinstance(owner, str):
        return True
    database = _sqlite_file(url)
    if database is not None and owner.startswith("lock-"):
        return not _is_held(_lock_file(database, owner))
    return time.time() - float(trial.user_attrs.get(BEAT, 0.0)) > SILENT_SECONDS


def release(url: str) -> None:
    """Give up this process's lock on a database; its trials have ended."""
    held = _held.pop((os.getpid(), url), None)
    database = _sqlite_file(url)
    if held is not None and database is not None:
        _lock_file(database, held[0]).unlink(missing_ok=True)
        os.close(held[1])


def _name(url: str) -> str:
    key, database = (os.getpid(), url), _sqlite_file(url)
    if key in _held:
        return _held[key][0]
    if database is None or fcntl is None:
        return f"beat-{secrets.token_hex(8)}"
    name = f"lock-{secrets.token_hex(8)}"
    lock = os.open(_lock_file(database, name), os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # this file system has no locks
        os.close(lock)
        _lock_file(database, name).unlink(missing_ok=True)
        return f"beat-{secrets.token_hex(8)}"
    _held[key] = (name, lock)
    return name


def _is_held(path: Path) -> bool:
    """Whether a process holds the lock file; a lock file without an owner is removed."""
    try:
        lock = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        path.unlink(missing_ok=True)
        return False
    finally:
        os.close(lock)


def _sqlite_file(url: str) -> Path | None:
    return Path(url.removeprefix(_SQLITE)) if url.startswith(_SQLITE) else None


def _lock_file(database: Path, owner: str) -> Path:
    return database.with_name(f".{database.name[:100]}.{''.join(c for c in owner if c.isalnum() or c == '-')}")
