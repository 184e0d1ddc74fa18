"""Which states trained, remembered in a few kilobytes, so that nobody scores a model on what it was shown unawares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.data.series import Dataset, Series

Marks = NDArray[np.uint64]
Part = tuple[int, int, int]

_RUN = 8
_MOST = 16384


@dataclass(frozen=True, eq=False)
class TrainingFingerprint:
    """What a model remembers of its training data.

    Short runs of consecutive rows are hashed, so that rows are recognised in any other file, cut, order or precision
    that holds the same numbers. Of very many runs those whose hash is a multiple of `stride` are kept, and the
    rows between two of them share their fate.

    Attributes:
        source: what the data was called.
        rows: (trajectory, first row, last row + 1) for each part that trained.
        held_out: the parts that only helped to choose.
        total: rows of the data in all.
        run: rows in one hash.
        stride: one in so many hashes is kept.
        marks: sorted hashes.
        choosing: the same of the rows that only helped to choose; None where every row trained, or is not known.
    """

    source: str
    rows: tuple[Part, ...]
    held_out: tuple[Part, ...]
    total: int
    run: int
    stride: int
    marks: Marks
    choosing: TrainingFingerprint | None = None

    @classmethod
    def of(cls, dataset: Dataset, rows: Sequence[Part], held_out: Sequence[Part] = ()) -> TrainingFingerprint:
        """Hash those parts of `dataset`."""
        parts = [part for part in rows if part[2] > part[1]]
        run = min([_RUN, *(last - first for _, first, last in parts)])
        stride, kept = 1, np.empty(0, dtype=np.uint64)
        for index, first, last in parts:
            for _, hashes in _hashes(dataset.series[index].cut(first, last), run):
                kept = np.union1d(kept, _select(hashes, stride))
                while len(kept) > _MOST:
                    stride *= 2
                    kept = _select(kept, stride)
        choosing = cls.of(dataset, held_out) if any(last > first for _, first, last in held_out) else None
        return cls(dataset.source, tuple(parts), tuple(held_out), dataset.rows, run, stride, kept, choosing)

    def seen(self, series: Series) -> NDArray[np.bool_]:
        """Which rows of a trajectory trained, (time,)."""
        rows = np.zeros(len(series), dtype=bool)
        places, flags = [np.array([-1])], [np.array([False])]
        for first, hashes in _hashes(series, self.run):
            chosen = np.flatnonzero(hashes % np.uint64(self.stride) == 0)
            places.append(chosen + first)
            flags.append(np.isin(hashes[chosen], self.marks))
        probes = np.concatenate([*places, [len(rows) - self.run + 1]])
        found = np.flatnonzero(np.concatenate(flags))
        if not len(found):
            return rows
        # A run between two kept hashes trained if one of them did, so each reaches from the one before to the next.
        begins, ends = probes[found - 1] + 1, probes[found + 1] - 1 + self.run
        apart = np.flatnonzero(begins[1:] > ends[:-1])
        for begin, end in zip(begins[np.r_[0, apart + 1]], ends[np.r_[apart, -1]], strict=True):
            rows[begin:end] = True
        return rows

    def chose(self, series: Series) -> NDArray[np.bool_]:
        """Which rows of a trajectory helped to choose but did not train, (time,)."""
        if self.choosing is None:
            return np.zeros(len(series), dtype=bool)
        return self.choosing.seen(series) & ~self.seen(series)

    def record(self) -> dict[str, Any]:
        """Everything but the marks as plain values, for a model file."""
        choosing = {} if self.choosing is None else {"choosing": self.choosing.record()}
        return {
            **choosing,
            "source": self.source,
            "rows": [list(part) for part in self.rows],
            "held_out": [list(part) for part in self.held_out],
            "total": self.total,
            "run": self.run,
            "stride": self.stride,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any], marks: Marks, choosing: Marks | None = None) -> TrainingFingerprint:
        """The fingerprint that `record` wrote down, with the hashes of the rows that trained and that chose."""
        rows, held_out = (tuple((int(i), int(a), int(b)) for i, a, b in record[key]) for key in ("rows", "held_out"))
        run, stride = max(1, int(record["run"])), max(1, int(record["stride"]))
        other = record.get("choosing")
        chose = None if other is None or choosing is None else cls.from_record(other, choosing)
        return cls(str(record["source"]), rows, held_out, int(record["total"]), run, stride, marks, chose)


def _select(hashes: Marks, stride: int) -> Marks:
    return np.unique(hashes[hashes % np.uint64(stride) == 0])


def _hashes(series: Series, run: int) -> Iterator[tuple[int, Marks]]:
    """One hash for each `run` consecutive rows, time - run + 1 in all, a block at a time: (first run, hashes)."""
    factors = _factors(series.size)
    for first, block in series.blocks(overlap=run - 1):
        # Adding zero makes -0.0 and 0.0 one number; float32 data widens without change.
        bits = (np.ascontiguousarray(block, dtype=np.float64) + 0.0).view(np.uint64)
        rows = _mixed((_mixed(bits) * factors).sum(axis=1, dtype=np.uint64))
        count = max(0, len(rows) - run + 1)
        total = np.zeros(count, dtype=np.uint64)
        for offset, factor in enumerate(_factors(run)):
            total += rows[offset : offset + count] * factor
        yield first, _mixed(total)


def _factors(count: int) -> Marks:
    """Odd multipliers, the same everywhere."""
    return _mixed(np.arange(1, count + 1, dtype=np.uint64)) | np.uint64(1)


def _mixed(values: Marks) -> Marks:
    """Spread every bit of 64 over all of them (multiply and shift, twice)."""
    for factor in (0xD6E8FEB86659FD93, 0xCA5A826395121157):
        values = (values ^ (values >> np.uint64(32))) * np.uint64(factor)
    return values ^ (values >> np.uint64(32))
