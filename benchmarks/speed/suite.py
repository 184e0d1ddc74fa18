"""The whole benchmark: the gate, then every group of measurements, each stored as soon as it is done."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.speed import export, field, fits, memory, networks, peers, product, stack, sweeps
from benchmarks.speed.gate import pass_or_raise
from benchmarks.speed.rows import Row
from benchmarks.speed.setting import Setting
from benchmarks.speed.store import ORDER, write_group
from benchmarks.speed.timing import threads
from lln.core.errors import InputError, choice
from lln.core.safe_files import output_folder

_MEASURES: tuple[Callable[[Setting], list[Row]], ...] = (
    product.product,
    peers.peers,
    fits.fits,
    sweeps.errors,
    stack.stack,
    networks.forward,
    networks.training,
    networks.rollouts,
    networks.ensembles,
    field.field,
    memory.memory,
    memory.first_call,
    sweeps.sweeps,
    export.exports,
)
GROUPS = dict(zip(ORDER, _MEASURES, strict=True))
DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class Outcome:
    """What a run of the benchmark left behind."""

    groups: list[str]
    files: list[Path]
    skipped: list[str]


def default_folder() -> Path:
    """`benchmarks/results` of the checkout that this package runs from, else the current folder."""
    root = Path(__file__).resolve().parents[2]
    return root / "benchmarks" / "results" if (root / "pyproject.toml").is_file() else Path()


def run(
    folder: Path,
    *,
    device: str = "cpu",
    only: Sequence[str] = (),
    quick: bool = False,
    say: Callable[[str], None] = lambda _: None,
    command: str = "benchmarks.speed.suite.run",
    commit: str | None = None,
) -> Outcome:
    """Measure and store.

    Args:
        folder: where a file for each group is written.
        device: "cpu" or "cuda".
        only: groups to measure; all of them if empty.
        quick: a small part in under a minute.
        say: told what is measured next.
        command: what to store as the command that made the numbers.
        commit: what to store as the commit, where there is no checkout to ask.

    Raises:
        BrokenOperatorError: the operator fails its tests; nothing is measured or written.
    """
    choice("device", device, DEVICES)
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("device 'cuda' needs an NVIDIA GPU that torch can see, and there is none; use 'cpu'")
    names = [choice("group of measurements", name, GROUPS) for name in only] or list(GROUPS)
    output_folder(folder)
    outcome = Outcome([], [], [])
    setting = Setting(device, quick, say, outcome.skipped)
    with threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is timed beside ours
        say("the operator's tests")
        pass_or_raise(device)
        for name in names:
            rows = GROUPS[name](setting)
            outcome.files.append(write_group(folder, name, setting, rows, command, commit))
            outcome.groups.append(name)
    say("")
    return outcome
