"""The records of a folder, asked for by what they are: block, role, system, model, depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lln.core.canonical import numbers
from lln.core.errors import InputError
from lln.core.statistics import Array, Summary, summarize
from lln.paper.records import Entry, Record, read_blocks, read_records, read_times

ROLLOUTS = ("R0", "SC-C", "L28-C")
PAPER_PAIRS, PAPER_STEPS = 3000, 500


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the runs of a study left behind.

    Attributes:
        records: every record by digest.
        blocks: which runs serve which block.
        seconds: wall time of each run by digest.
    """

    records: Mapping[str, Record]
    blocks: Mapping[str, Sequence[Entry]]
    seconds: Mapping[str, float]

    @classmethod
    def read(cls, folder: Path | str) -> Evidence:
        """The evidence in `folder`; it may be incomplete, but there must be some."""
        if not Path(folder).is_dir():
            raise InputError(f"{folder}: there is no such folder of records; run `lln reproduce` first")
        records, blocks = read_records(folder), read_blocks(folder)
        if not records or not blocks:
            raise InputError(f"{folder}: holds no records; run `lln reproduce --out {folder}` first")
        return cls(records, blocks, {key: timing.seconds for key, timing in read_times(folder).items()})

    def runs(
        self,
        *blocks: str,
        role: str | None = None,
        system: str | None = None,
        model: str | None = None,
        depth: int | None = None,
    ) -> list[Record]:
        """The finished runs of `blocks` that fit, each once, in the order of the blocks."""
        found: dict[str, Record] = {}
        for block in blocks:
            for entry in self.blocks.get(block, ()):
                record = self.records.get(entry.digest)
                if record is None or not record.done or (role is not None and entry.role != role):
                    continue
                spec = record.spec
                wanted = ((system, spec.get("system")), (model, spec.get("model")))
                if any(wish is not None and wish != value for wish, value in wanted):
                    continue
                if depth is None or spec.get("options", {}).get("depth") == depth:
                    found.setdefault(entry.digest, record)
        return list(found.values())

    def first(self, *blocks: str, **wanted: Any) -> Record | None:
        """The first of `runs`, None if there is none."""
        return next(iter(self.runs(*blocks, **wanted)), None)

    def row(self, system: str, depth: int, model: str) -> Record | None:
        """The run behind one cell of the rollout tables: of several configurations, the one with the lowest mean."""
        return lowest(self._rows.get((system, depth, model), []))

    @cached_property
    def _rows(self) -> dict[tuple[str, int, str], list[Record]]:
        """The runs of the rollout tables by cell; the tables, figures and claims ask for every cell many times."""
        found: dict[tuple[str, int, str], list[Record]] = {}
        for record in self.runs(*ROLLOUTS, role="row"):
            spec = record.spec
            found.setdefault((spec["system"], spec["options"]["depth"], spec["model"]), []).append(record)
        return found

    def row_score(self, system: str, depth: int, model: str) -> Summary | None:
        """Its mean and standard deviation."""
        record = self.row(system, depth, model)
        return None if record is None else score(record)

    def unfinished(self, *blocks: str) -> tuple[int, int]:
        """How many runs of `blocks` are missing, and how many crashed."""
        entries = [entry.digest for block in blocks for entry in self.blocks.get(block, ())]
        missing = sum(digest not in self.records for digest in entries)
        failed = sum(digest in self.records and not self.records[digest].done for digest in entries)
        return missing, failed

    @cached_property
    def trial(self) -> bool:
        """Whether a run that serves a block used other data than the paper's: a trial run, of which no row compares."""
        served = {entry.digest for entries in self.blocks.values() for entry in entries}
        return any(is_shortened(self.records[digest]) for digest in served if digest in self.records)


def is_shortened(record: Record) -> bool:
    """Whether the run's data are not those of the paper's protocol."""
    data = record.spec.get("data", {})
    sizes = (data.get("pairs", PAPER_PAIRS), data.get("steps", PAPER_STEPS))
    return sizes != (PAPER_PAIRS, PAPER_STEPS)


def score(record: Record) -> Summary:
    """Mean and standard deviation of a rollout run over its seeds."""
    return summarize(numbers(record.result["mse"]))


def lowest(records: Sequence[Record]) -> Record | None:
    """The run with the lowest mean; the first of several that diverged, None of none."""
    return min(records, key=lambda record: score(record).mean, default=None)


def table_of(record: Record, key: str) -> Array:
    """A list of lists of a record's result as a matrix in float64."""
    return np.array([numbers(row) for row in record.result[key]], dtype=np.float64)
