"""Two processes that write the same results at once."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator

from validation.faults.forks import Command
from validation.faults.outcome import Outcome, aftermath
from validation.faults.works import Bench, ways


def two_writers(bench: Bench, count: int, seed: int) -> Iterator[Outcome]:
    """Two of the same command in one folder, a little apart; now and then the first is killed."""
    draw = random.Random(f"{seed} together")
    names = ("study", "fit", "simulate zarr", "study", "search", "export c", "simulate csv", "export onnx")
    for index in range(count):
        work = bench.works[names[index % len(names)]]
        older = bool(index // len(names) % 2) and bool(work.other)
        place, expected = bench.begin(work, older), bench.expected(work)
        first = Command(work.words, place, work.before)
        first.wait(draw.random() * expected.seconds)
        second = Command(work.again if draw.random() < 0.5 else work.words, place, work.before)
        if index % 4 == 3:
            first.wait(draw.random() * expected.seconds)
            first.send(signal.SIGKILL)
        ends = [first.end(), second.end()]
        outcome = aftermath(bench, "two writers", work, place, ends[1], older)
        outcome.ended = " and ".join(sorted(ways(one) for one in ends))
        outcome.traces(ends[0])
        for one in ends:
            if one.code not in (0, 2, -9):
                outcome.findings.append(f"lost: a writer ended as {ways(one)}: {one.text[-800:]}")
        yield outcome
