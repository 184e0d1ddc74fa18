"""Rows of a table: stored as they come, and what is stored is not run again."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.provenance import provenance
from lln.core.safe_files import whole_file

Row = dict[str, Any]
Array = NDArray[np.float64]


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

    def complete(self, key: str, ours: Callable[[], Row], others: Callable[[], Row], names: Sequence[str]) -> None:
        """Run what is missing in one row.

        Args:
            key: of the row.
            ours: results of the forecaster, "lln" among them.
            others: results of the baselines.
            names: of the baselines; empty leaves them out.
        """
        row = self.rows[key]
        if names and not any(name in row for name in names):
            row |= others()
            self.store()
        if "lln" not in row:
            row |= ours()
            self.store()

    def store(self) -> None:
        """Write all rows."""
        with whole_file(self.out) as path:
            Path(path).write_text(json.dumps(self.stored, indent=1))


def parser_of(text: str | None) -> argparse.ArgumentParser:
    """A parser with the options that all tables have."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--again", action="store_true", help="fit the forecaster again; stored baselines are kept")
    return parser
