"""Choosing configurations by their scores, by a rule that is stated once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from lln.paper.expand import RunSpec
from lln.paper.records import Record, numbers
from lln.paper.spec import Confirm, family_of


def mean_score(record: Record) -> float:
    """Mean over seeds of the rollout error; infinite if any seed diverged or the run failed."""
    if not record.done:
        return math.inf
    scores = numbers(record.result["mse"])
    return sum(scores) / len(scores)


def lowest(runs: Iterable[RunSpec], records: Mapping[str, Record]) -> RunSpec:
    """The run with the lowest mean; among equals, also infinite ones, the first in the study's order."""
    return min(runs, key=lambda run: mean_score(records[run.digest]) if run.digest in records else math.inf)


def confirmations(runs: Iterable[RunSpec], records: Mapping[str, Record], confirm: Confirm) -> list[RunSpec]:
    """The lowest run of each system and family, on the seeds that confirm; references need none."""
    groups: dict[tuple[str, str], list[RunSpec]] = {}
    for run in runs:
        if family_of(run.content["model"]) == "reference":
            continue
        groups.setdefault((run.content["system"], family_of(run.content["model"])), []).append(run)
    return [
        lowest(group, records).again(confirm.seeds, curve=confirm.curve, role="confirmation")
        for group in groups.values()
    ]
