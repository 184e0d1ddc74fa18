"""Hours in minutes: mixed work in one process, round after round, with memory, handles and threads watched.

`python -m validation.soak --minutes 30` (or `make soak`). Every round does the same kinds of work on fresh sizes and
seeds; after each the process is looked at. What the first fifth of the time, and at least fifteen rounds, leave behind
is warm-up: libraries load, caches fill, the heap finds its size. The rule for the rest:

* memory: the median slope between all pairs of rounds (Theil and Sen) is at most 24 MiB an hour, and the median of the
  last quarter is at most 16 MiB above that of the first;
* open file handles, threads, child processes and temporary files: no more in the worst round of the last quarter than
  in the worst of the first half. A few stay for good: pools of threads in libraries, the process that reads files by C
  libraries, and the one that Python's multiprocessing keeps;
* a fit that is repeated in every round gives the same bits every time, and no work goes wrong.

The exit code is 0 if all hold, and 1 with the reasons if not.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from lln.core.provenance import provenance
from lln.core.safe_files import whole_file
from validation.soak_work import KINDS, Bench

MINUTES = 30.0
WARM_UP = 0.2
SLOPE = 24.0  # MiB an hour
STEP = 16.0  # MiB between the first and the last quarter
ROUND = 15  # every file format and every rarer kind of work has come up, and the heap has found its size
FEWEST = 8  # rounds behind the warm-up, for a slope to mean anything
COUNTED = ("handles", "threads", "children", "left")
RESULTS = Path(__file__).parent / "results" / "soak.json"


@dataclass(frozen=True)
class Sample:
    """The process after a round.

    Attributes:
        seconds: since the beginning.
        memory: resident, MiB.
        handles: open file descriptors.
        threads: of the operating system.
        children: processes that are still there.
        left: files in the folder of temporary files.
    """

    seconds: float
    memory: float
    handles: int
    threads: int
    children: int
    left: int


def look(began: float, temporary: Path) -> Sample:
    """The process as it is now, without what is only waiting to be collected."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    tasks = list(Path("/proc/self/task").iterdir())
    children = [child for task in tasks for child in (task / "children").read_text().split()]
    return Sample(
        round(time.monotonic() - began, 2),
        round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 2),
        len(list(Path("/proc/self/fd").iterdir())),
        len(tasks),
        len(children),
        sum(1 for _ in temporary.iterdir()),
    )


def slope(samples: Sequence[Sample]) -> float:
    """Median slope of memory between all pairs of rounds, MiB an hour: a few odd rounds do not move it."""
    rates = [3600 * (b.memory - a.memory) / (b.seconds - a.seconds) for a, b in combinations(samples, 2)]
    return statistics.median(rates)


def verdict(samples: Sequence[Sample], minutes: float) -> tuple[dict[str, Any], list[str]]:
    """What was measured behind the warm-up, and what of it breaks the rule."""
    steady = [s for k, s in enumerate(samples) if k >= ROUND and s.seconds >= 60 * minutes * WARM_UP]
    if len(steady) < FEWEST:
        return {"rounds": len(samples)}, [f"{len(steady)} rounds behind the warm-up are too few to judge by"]
    quarter = max(2, len(steady) // 4)
    first, early, last = steady[:quarter], steady[: len(steady) // 2], steady[-quarter:]
    rise = statistics.median(s.memory for s in last) - statistics.median(s.memory for s in first)
    found: dict[str, Any] = {
        "rounds": len(samples),
        "steady_rounds": len(steady),
        "slope_mib_per_hour": round(slope(steady), 2),
        "rise_mib": round(rise, 2),
        "memory_mib": [steady[0].memory, max(s.memory for s in steady), steady[-1].memory],
    }
    counted = {name: [max(getattr(s, name) for s in part) for part in (early, last)] for name in COUNTED}
    broken = [f"{name} rose from {before} to {after}" for name, (before, after) in counted.items() if after > before]
    # Over a few minutes a slope is noise; the rise says the same and is not divided by a short time.
    if found["slope_mib_per_hour"] > SLOPE and rise > STEP / 4:
        broken.append(f"memory grows by {found['slope_mib_per_hour']} MiB an hour, more than {SLOPE:g}")
    if rise > STEP:
        broken.append(f"memory rose by {rise:.1f} MiB from the first quarter to the last, more than {STEP:g}")
    return {**found, **counted}, broken


def soak(minutes: float, kinds: Sequence[str], say: Callable[[str], None]) -> dict[str, Any]:
    """Work for so long; what was done, what was measured, and what broke the rule."""
    counts, wrong, samples = dict.fromkeys(kinds, 0), [], []
    with tempfile.TemporaryDirectory(prefix="lln-soak-") as folder:
        bench, temporary = Bench(Path(folder) / "work"), Path(folder) / "tmp"
        temporary.mkdir()
        tempfile.tempdir = str(temporary)
        began = told = time.monotonic()
        try:
            while time.monotonic() - began < 60 * minutes:
                bench.begin(len(samples))
                for kind in kinds:
                    reasons = [f"round {len(samples)}, {kind}: {reason}" for reason in bench.do(kind)]
                    for reason in reasons:
                        say(reason)
                    wrong += reasons
                    counts[kind] += 1
                bench.end()
                samples.append(look(began, temporary))
                if time.monotonic() - told >= 60 or len(samples) == 1:
                    told = time.monotonic()
                    say(line(samples, sum(counts.values()), len(wrong)))
        finally:
            tempfile.tempdir = None
    found, broken = verdict(samples, minutes)
    return {
        "minutes": minutes,
        "rule": {"slope_mib_per_hour": SLOPE, "rise_mib": STEP, "warm_up": WARM_UP, "warm_up_rounds": ROUND},
        "done": counts, **found, "wrong": wrong, "broken": broken, "samples": [asdict(s) for s in samples],
    }  # fmt: skip


def line(samples: Sequence[Sample], done: int, wrong: int) -> str:
    """One line for the log."""
    now = samples[-1]
    return (
        f"{now.seconds / 60:6.1f} min  {len(samples):4d} rounds  {done:5d} jobs  {now.memory:7.1f} MiB  "
        f"{now.handles:3d} handles  {now.threads:3d} threads  {wrong} wrong"
    )


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument(
        "--kinds", nargs="+", choices=sorted(KINDS), default=list(KINDS), help="of work; all by default"
    )
    parser.add_argument("--out", type=Path, default=None, help=f"where the numbers go, as in {RESULTS.name}")
    given = parser.parse_args()
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    result = {**provenance("torch", "numpy"), "threads_used": torch.get_num_threads()}
    result |= soak(given.minutes, given.kinds, lambda text: print(text, flush=True))
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(given.out) as partial:
            partial.write_text(json.dumps(result, indent=1) + "\n")
    for name in ("rounds", "slope_mib_per_hour", "rise_mib", "memory_mib", *COUNTED):
        if name in result:
            print(f"{name}: {result[name]}")
    reasons = [*result["broken"], *result["wrong"]]
    print("no growth, nothing wrong" if not reasons else "\n".join(reasons))
    return 1 if reasons else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        np.seterr(all="warn")
        sys.exit(main())
