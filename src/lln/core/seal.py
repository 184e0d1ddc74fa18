"""A digest inside a safetensors file, so that one flipped bit anywhere in it is noticed.

Its place is among the file's own metadata, where other readers pass it by. It is the SHA-256 of the whole file with
zeros in the digest's own place. Files from before there were digests have no place for one, and are taken as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

KEY = "sha256"
BLANK = "0" * 64
_BLOCK = 1 << 20
BROKEN = "its content and its digest do not agree; it was damaged on the way"


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
    """Whether the file at `path` is not what its digest says.

    Args:
        path: of the file.
        metadata: its own, by name.
        known: the only other name that may be there; a digest whose name was damaged must not pass for a missing one.
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
