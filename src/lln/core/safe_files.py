"""Atomic writes, digests inside files, checks of the place to write to, and the user's cache.

The digest of a safetensors file is the SHA-256 of the file with zeros in the place of the digest, among the metadata of
the file. Files without a place for a digest are accepted as they are.
"""

from __future__ import annotations

import contextlib
import ctypes
import difflib
import hashlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lln.core.errors import InputError

try:
    import fcntl
except ImportError:  # pragma: no cover - not a POSIX system
    fcntl = None  # type: ignore[assignment]

SUFFIX = ".partial"  # ends the name of what is being written
_EXCHANGE = 2  # flag of renameat2: swap two names in one operation
_HERE = -100  # AT_FDCWD
_OLD = ".old"  # entry of a work folder that holds the target while it is replaced
_LONGEST = 200  # bytes of a target's name that become part of the work folder's name
KEY = "sha256"
BLANK = "0" * 64
_BLOCK = 1 << 20
BROKEN = "its content and its digest do not agree; it is damaged"
_UNIX = hasattr(os, "getuid") and os.open in os.supports_dir_fd
_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_DIGEST = 32  # bytes of the checksum in front of the content


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """Yield a path to write to; what is there at the end replaces `target`, unless an error was raised.

    The path lies in a hidden work folder beside `target`. The writer holds a lock on that folder, which the system
    releases when the writer ends in any way. The next writer of `target` removes work folders without a lock. Locks
    belong to open files, so this is right for threads, processes, containers and machines that share a disk.

    A new file gets the permissions of the user's mask. A file that is replaced keeps its permissions.
    """
    check_target(target)
    tidy(target)
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
            locked(lock)
            if work.is_dir():
                return work, lock
            os.close(lock)


def _prefix(target: Path) -> str:
    name = os.fsencode(target.name)
    return f".{target.name}." if len(name) <= _LONGEST else f".{hashlib.sha256(name).hexdigest()[:32]}."


def locked(descriptor: int) -> bool:
    """Try to lock an open file or folder; False if another process holds it or the system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (OSError, AttributeError):  # without fcntl there are no locks
        return False
    return True


def _put(partial: Path, target: Path) -> None:
    if not target.is_dir() and not partial.is_dir():
        with contextlib.suppress(FileNotFoundError):  # another process may delete it at this moment
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


def tidy(target: Path) -> None:
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
                    if locked(descriptor):
                        _discard(path, target)
                finally:
                    os.close(descriptor)


def _discard(work: Path, target: Path) -> None:
    """Remove a work folder; a target that was set aside in it comes back if nothing took its place."""
    old = work / _OLD
    if old.exists() and not target.exists():
        old.rename(target)
    shutil.rmtree(work, ignore_errors=True)


def refuse_missing(path: Path) -> None:
    """Refuse a path at which there is nothing to read."""
    if not path.exists():
        near = f", and no folder {path.parent}; check the path"
        if path.parent.is_dir():
            others = sorted(entry.name for entry in path.parent.iterdir())
            match = difflib.get_close_matches(path.name, others, n=1, cutoff=0.8)
            near = f"; did you mean {match[0]!r}?" if match else "; check the path"
        raise InputError(f"{path}: no such file{near}")
    if not os.access(path, os.R_OK):
        raise InputError(f"{path}: cannot be read; change its permissions")
    if not path.is_file() and not path.is_dir():
        raise InputError(f"{path}: neither a file nor a folder, so it might never end; copy it to a file first")
    if path.is_file() and path.stat().st_size == 0:
        raise InputError(f"{path}: empty, 0 bytes; write it again")


def output_folder(path: str | os.PathLike[str]) -> Path:
    """`path` as a folder that exists and can be written to; it is made if it is missing."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = "a file has this name" if folder.is_file() else error.strerror
        raise InputError(f"{folder}: a folder that cannot be created ({why}); choose another") from error
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


def sealed(content: bytes) -> bytes:
    """A file that was made with `BLANK` in the place of its digest, with the digest and its metadata in order."""
    content = _in_order(content)
    head, tail = _around(content, BLANK)
    digest = hashlib.sha256(content).hexdigest().encode()
    return content[:head] + digest + content[tail:]


def _in_order(content: bytes) -> bytes:
    """The same file with its metadata sorted by name; safetensors writes them in an order of its own each time."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # tensors begin at a multiple of eight
    return len(text).to_bytes(8, "little") + text + content[8 + size :]


def broken(path: Path, metadata: Mapping[str, str], known: str) -> bool:
    """Whether the file at `path` does not match its digest.

    `known` is the only other name allowed in its `metadata`, so that a digest with a damaged name does not pass for a
    missing one.
    """
    strangers = set(metadata) - {known, KEY}
    if KEY not in metadata and not strangers:
        return False
    digest = str(metadata.get(KEY, ""))
    return bool(strangers) or len(digest) != len(BLANK) or _hash_of(path, digest) != digest


def _hash_of(path: Path, digest: str) -> str:
    hasher = hashlib.sha256()
    with path.open("rb") as file:
        length = file.read(8)
        head = file.read(int.from_bytes(length, "little"))  # a reader has held this length against the file's
        try:
            first, last = _around(head, digest)
        except ValueError:
            return ""
        hasher.update(length + head[:first] + BLANK.encode() + head[last:])
        while block := file.read(_BLOCK):
            hasher.update(block)
    return hasher.hexdigest()


def _around(content: bytes, digest: str) -> tuple[int, int]:
    """Where the digest begins and ends: behind its name, which is the last of the metadata or followed by others."""
    begin = content.index(f'"{KEY}":"{digest}"'.encode()) + len(KEY) + 4
    return begin, begin + len(digest)


@dataclass(frozen=True)
class UserCache:
    """Files of one kind that can be made again, in a folder that only this user can write to.

    Each has a checksum of its content in front. Every folder on the way is opened by its handle, without following
    links, and belongs to this user or to root; none may be written to by others, unless it is sticky. The last two
    folders and the files belong to this user. If any of this fails, nothing is cached.
    """

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
                file = os.open(self._place(name), os.O_RDONLY | _FLAGS, dir_fd=_fd(handle))
            except OSError:
                return None
            with os.fdopen(file, "rb") as stream:
                status = os.fstat(file)
                if not stat.S_ISREG(status.st_mode) or not _private(status):
                    return None
                digest, content = stream.read(_DIGEST), stream.read()
        return content if hashlib.sha256(content).digest() == digest else None

    def write(self, name: str, content: bytes) -> None:
        """Store a file under a temporary name first, so that no other process reads half of it."""
        part = f".{name}.{secrets.token_hex(8)}{SUFFIX}"
        with self._opened() as handle, contextlib.suppress(OSError):
            if handle is None:
                return
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS
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

    @contextmanager
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
            flags = os.O_RDONLY | os.O_DIRECTORY | _FLAGS
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


def _fd(handle: int) -> int | None:
    return handle if _UNIX else None


def _private(status: os.stat_result) -> bool:
    return not _UNIX or (status.st_uid == os.getuid() and not status.st_mode & _OTHERS)


def _safe_parent(status: os.stat_result) -> bool:
    """Whether only this user can replace a folder inside."""
    own = status.st_uid in (0, os.getuid())
    return own and (not status.st_mode & _OTHERS or bool(status.st_mode & stat.S_ISVTX))
