"""Files that can be made again, in folders that only this user can write to.

Every folder on the way is opened by its handle, without following links, and belongs to this user or to root; none may
be written to by others, unless it is sticky. The last two folders and the files belong to this user. Where any of this
fails there is no cache, and what would be in it is made every time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_UNIX = hasattr(os, "getuid") and os.open in os.supports_dir_fd
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_DIGEST = 32  # bytes of the checksum in front of the content
PARTIAL = ".partial"  # ends the name of a file that is being written


@dataclass(frozen=True)
class UserCache:
    """The files of one kind, each with a checksum of its content in front."""

    kind: str

    def location(self) -> Path | None:
        """The folder, made on demand; None where it cannot be made or others could write to it."""
        with self._opened() as handle:
            return None if handle is None else self._path()

    def read(self, name: str) -> bytes | None:
        """The content of a file, if it is whole and this user's own."""
        with self._opened() as handle:
            if handle is None:
                return None
            try:
                file = os.open(self._place(name), os.O_RDONLY | _flags(), dir_fd=_fd(handle))
            except OSError:
                return None
            with os.fdopen(file, "rb") as stream:
                status = os.fstat(file)
                if not stat.S_ISREG(status.st_mode) or not _private(status):
                    return None
                digest, content = stream.read(_DIGEST), stream.read()
        return content if hashlib.sha256(content).digest() == digest else None

    def write(self, name: str, content: bytes) -> None:
        """Store a file under a name of its own first, so that no other process meets half of it."""
        part = f".{name}.{secrets.token_hex(8)}{PARTIAL}"
        with self._opened() as handle, contextlib.suppress(OSError):
            if handle is None:
                return
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _flags()
            file = os.open(self._place(part), flags, 0o600, dir_fd=_fd(handle))
            try:
                with os.fdopen(file, "wb") as stream:
                    stream.write(hashlib.sha256(content).digest())
                    stream.write(content)
                os.replace(self._place(part), self._place(name), src_dir_fd=_fd(handle), dst_dir_fd=_fd(handle))
            except OSError:
                os.unlink(self._place(part), dir_fd=_fd(handle))

    def _path(self) -> Path:
        """Where the folder lies, links resolved."""
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(os.path.realpath(base)) / "lln" / self.kind

    def _place(self, name: str) -> str:
        return name if _UNIX else str(self._path() / name)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int | None]:
        """A handle of the folder; None where it cannot be trusted."""
        handles: list[int] = []
        try:
            yield self._descend(handles)
        finally:
            for handle in handles:
                os.close(handle)

    def _descend(self, handles: list[int]) -> int | None:
        """Open the folder step by step from the root; every handle that was opened is in `handles`."""
        try:
            path = self._path()
            if not _UNIX:
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
                return -1
            flags = os.O_RDONLY | os.O_DIRECTORY | _flags()
            handles.append(os.open(path.anchor, flags))
            for depth, name in enumerate(path.parts[1:], start=1):
                if not _safe_parent(os.fstat(handles[-1])):
                    return None
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=handles[-1])
                handles.append(os.open(name, flags, dir_fd=handles[-1]))
                if depth >= len(path.parts) - 2 and not _private(os.fstat(handles[-1])):
                    return None
            return handles[-1]
        except (OSError, RuntimeError, ValueError):
            return None


def _flags() -> int:
    return getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def _fd(handle: int) -> int | None:
    return handle if _UNIX else None


def _private(status: os.stat_result) -> bool:
    return not _UNIX or (status.st_uid == os.getuid() and not status.st_mode & _OTHERS)


def _safe_parent(status: os.stat_result) -> bool:
    """Whether only this user can replace a folder inside."""
    own = status.st_uid in (0, os.getuid())
    return own and (not status.st_mode & _OTHERS or bool(status.st_mode & stat.S_ISVTX))
