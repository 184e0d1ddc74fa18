"""The time that a fit may take, and how much of it has passed."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class TimeLimit:
    """A time limit that starts when it is made.

    Attributes:
        seconds: the limit; None for none.
        began: start by the monotonic clock.
    """

    seconds: float | None = None
    began: float = field(default_factory=time.monotonic)

    @property
    def end(self) -> float | None:
        """The end by the monotonic clock; None without a limit."""
        return None if self.seconds is None else self.began + self.seconds

    def passed(self, share: float = 1.0) -> bool:
        """Whether this share of the time has passed; never without a limit."""
        return self.seconds is not None and time.monotonic() > self.began + share * self.seconds
