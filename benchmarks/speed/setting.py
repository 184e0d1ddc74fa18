"""How a benchmark runs: on which device, how thoroughly, and whom it tells."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.speed.gate import backends_on


def _quiet(text: str) -> None:
    del text


@dataclass(frozen=True)
class Setting:
    """One run.

    Attributes:
        device: "cpu" or "cuda".
        quick: a small part in under a minute, without what must be compiled or exported first.
        say: told what is measured next.
        skipped: what was left out and why, filled as the run goes.
    """

    device: str = "cpu"
    quick: bool = False
    say: Callable[[str], None] = _quiet
    skipped: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """How long one race lasts at least."""
        return 0.2 if self.quick else 2.0

    @property
    def least(self) -> int:
        """How many rounds a race has at least."""
        return 3 if self.quick else 5

    @property
    def fused(self) -> str:
        """The fastest backend on the device."""
        return backends_on(self.device)[0]

    def skip(self, what: str, reason: str) -> None:
        """Note that `what` was not measured."""
        line = f"{what}: {reason}"
        if line not in self.skipped:
            self.skipped.append(line)


def progress() -> Callable[[str], None]:
    """A line on the terminal that always shows the last thing said; silence where stderr is no terminal."""
    if not sys.stderr.isatty():
        return _quiet

    def say(text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

    return say
