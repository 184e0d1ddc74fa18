import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.validation

ROOT = Path(__file__).resolve().parents[2]
KINDS = [
    *("kill -9: fit", "kill -9: search", "kill -9: study", "kill -9: export", "kill -9: conversion"),
    *("disk full", "read-only", "out of memory", "cut short", "flipped byte", "two writers"),
    *("Dask worker lost", "Dask scheduler lost", "clock set", "Ctrl-C", "Ctrl-C twice"),
]


def family(kind):
    return "Dask" if kind.startswith("Dask") else kind.partition(":")[0]


def test_faults_of_every_kind_lose_nothing_falsify_nothing_and_show_no_traceback(tmp_path):
    told = tmp_path / "outcomes.json"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    done = subprocess.run(
        [sys.executable, "-m", "validation.faults", "--short", "--outcomes", str(told)],
        cwd=ROOT,
        env={**environment, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert told.exists(), done.stderr[-3000:]
    outcomes = json.loads(told.read_text())
    assert {one["kind"] for one in outcomes} == set(KINDS)
    assert not [(one["kind"], one["work"], finding) for one in outcomes for finding in one["findings"]]


def test_the_stored_table_has_every_kind_often_enough_and_no_finding():
    stored = json.loads((ROOT / "validation" / "results" / "faults.json").read_text())
    assert stored["faults"] >= 300
    assert stored["findings"] == 0
    counts = Counter()
    for row in stored["rows"]:
        counts[family(row["kind"])] += row["faults"]
    assert set(counts) == set(map(family, KINDS))
    assert min(counts.values()) >= 20, counts
