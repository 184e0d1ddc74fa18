"""Rows of a table: stored as they come, and what is stored is not run again."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from lln.core.provenance import provenance
from lln.core.safe_files import whole_file

Row = dict[str, Any]
Array = NDArray[np.float64]


class Task(NamedTuple):
    """What a row needs: its key, its data, and functions that give the results of the forecaster and the baselines."""

    key: str
    data: Array
    ours: Callable[[], Row]
    others: Callable[[], Row]


class Rows:
    """The rows of one table.

    Args:
        out: file that keeps them.
        again: whether the forecaster is fitted again for every row. The baselines of a row depend on its data alone and
            are kept.
    """

    def __init__(self, out: Path, *, again: bool = False) -> None:
        self.out = out
        self.stored: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {"rows": {}}
        self.rows: dict[str, Row] = self.stored["rows"]
        if again:
            for row in self.rows.values():
                row.pop("lln", None)
        if again or "made" not in self.stored:
            self.stored["made"] = provenance("torch", "numpy", "scipy")

    def lacks(self, key: str, data: Array, names: Sequence[str] = ()) -> bool:
        """Whether a row is incomplete: the forecaster or all of the baselines `names` are missing.

        Chaotic trajectories differ from processor to processor. A row of other data is dropped.
        """
        digest = hashlib.sha256(np.ascontiguousarray(data).tobytes()).hexdigest()[:16]
        row = self.rows.setdefault(key, {})
        if row.get("data") != digest:
            row.clear()
            row["data"] = digest
        return "lln" not in row or (bool(names) and not any(name in row for name in names))

    def run(self, tasks: Iterable[Task], names: Sequence[str], jobs: int = 1) -> Iterator[str]:
        """Run what is missing, and give the key of every row that is complete.

        Args:
            tasks: the rows.
            names: of the baselines; empty leaves them out.
            jobs: processes; with one, everything runs in this one.
        """
        with ProcessPoolExecutor(jobs, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
            waiting: dict[Future[Row], str] = {}
            for task in tasks:
                if not self.lacks(task.key, task.data, names):
                    continue
                row = self.rows[task.key]
                wanted = [] if not names or any(name in row for name in names) else [task.others]
                wanted += [] if "lln" in row else [task.ours]
                if jobs == 1:
                    yield self.store(task.key, _found(wanted))
                else:
                    waiting[pool.submit(_found, wanted)] = task.key
            failed = [error for error in (yield from self._stored(waiting)) if error]
        if failed:
            raise failed[0]

    def _stored(self, waiting: dict[Future[Row], str]) -> Generator[str, None, list[BaseException | None]]:
        """Store results as they come; what failed is told in the end, so that the others are not lost."""
        for done in as_completed(waiting):
            if done.exception() is None:
                yield self.store(waiting[done], done.result())
        return [done.exception() for done in waiting]

    def store(self, key: str, found: Row) -> str:
        """Add results to a row and write all rows."""
        self.rows[key] |= found
        self.write()
        return key

    def write(self) -> None:
        """Write all rows."""
        with whole_file(self.out) as path:
            Path(path).write_text(json.dumps(self.stored, indent=1))


def _found(wanted: Sequence[Callable[[], Row]]) -> Row:
    """The results of some functions together."""
    return {name: value for one in wanted for name, value in one().items()}


def parser_of(text: str | None) -> argparse.ArgumentParser:
    """A parser with the options that all tables have."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--again", action="store_true", help="fit the forecaster again; stored baselines are kept")
    return parser
