"""What any pool of workers offers: a function and many tasks in, finished tasks out, in whatever order they finish."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Task:
    """One call to make.

    Attributes:
        key: its name, different from every other's.
        payload: the function's only argument.
    """

    key: str
    payload: Any


@dataclass(frozen=True)
class Finished:
    """One call that came to an end.

    Attributes:
        key: the task's.
        value: what the function returned; None if it failed.
        error: what went wrong, in words; None if it did not.
        seconds: wall time in the worker.
    """

    key: str
    value: Any = None
    error: str | None = None
    seconds: float = 0.0


class Pool(Protocol):
    """Workers that call one function on many tasks."""

    @property
    def running(self) -> int:
        """How many tasks are being worked on at this moment."""

    def close(self) -> None:
        """Let go of the workers."""

    def run(self, function: Function, tasks: Sequence[Task]) -> Iterator[Finished]:
        """Call `function` on every task, the first ones first; a call that fails is a result like any other."""
