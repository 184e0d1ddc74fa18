"""Progress of a fit for a person: bars on a terminal, one line in a notebook, nothing in a script or a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from lln.core.errors import InputError, printable

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rich.console import Console

Listener = Callable[[Any], None]
_LONG_MESSAGE = 24  # columns; longer messages have a line of their own above the bars


def progress_for(verbose: bool | str) -> AbstractContextManager[Listener | None]:
    """A context that gives the callback of a fit.

    Args:
        verbose: True shows progress in any case, False never. "auto" shows it in an interactive session on a terminal
            and in a notebook, and is silent in scripts.
    """
    if not (isinstance(verbose, bool | int) or verbose == "auto"):
        raise InputError(f'verbose must be True, False or "auto", got {verbose!r}')
    if (verbose == "auto" and not (in_notebook() or (_interactive() and sys.stderr.isatty()))) or not verbose:
        return nullcontext(None)
    if in_notebook():
        return _notebook_line()
    if sys.stderr.isatty():
        from rich.console import Console

        return bars_on(Console(stderr=True, highlight=False))
    return nullcontext(_say)


def in_notebook() -> bool:
    """Whether the session is a notebook of Jupyter."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and hasattr(shell, "kernel")


def _interactive() -> bool:
    return hasattr(sys, "ps1") or bool(sys.flags.interactive) or "IPython" in sys.modules


def _say(event: Any) -> None:
    print(event, flush=True)


@contextmanager
def _notebook_line() -> Iterator[Listener]:
    """One line that is replaced by each event, and removed at the end."""
    import html

    from IPython.display import HTML, display

    handle = display(HTML(""), display_id=True)

    def listen(event: Any) -> None:
        bar = f"<progress value='{event.done}' max='{max(event.total, 1)}'></progress>"
        handle.update(HTML(f"{bar} {html.escape(printable(str(event)))}"))

    try:
        yield listen
    finally:
        handle.update(HTML(""))


@contextmanager
def bars_on(screen: Console) -> Iterator[Listener]:
    """A callback that draws a numbered bar for each phase on `screen`; the bars vanish at the end."""
    from rich.live import Live

    bars = Bars()
    with Live(bars, console=screen, transient=True):
        yield bars.listen


class Bars:
    """Bars of the phases of a command, and the latest long message above them."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

        self.progress = Progress(
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description:<21}", markup=False),
            BarColumn(bar_width=20),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.fields[message]}", markup=False, style="dim"),
        )
        self.message = ""
        self._bars: dict[tuple[str, str], Any] = {}
        self._groups: dict[str, tuple[int, Any]] = {}
        self._before = self.progress.get_time()

    def __rich__(self) -> Any:
        """The message, if there is one, above the bars."""
        from rich.console import Group
        from rich.text import Text

        bars = self.progress.get_renderable()
        return Group(Text(printable(self.message), style="dim"), bars) if self.message else bars

    def listen(self, event: Any) -> None:
        """Show one event of progress: phase, done, total, message, and the group if there are several models."""
        group, phase = getattr(event, "group", ""), str(event.phase)
        if getattr(event, "parts", 0):
            phase = f"{phase} {event.part}/{event.parts}"
        bar = self._bars.get((group, phase))
        if bar is None:
            if group in self._groups:  # a comparison has one line for each model
                self.progress.update(self._groups[group][1], visible=False)
            number = 1 + len(self._groups if group else self._bars)
            number = self._groups[group][0] if group in self._groups else number
            title = f"{number}. {printable(group or phase)}"
            bar = self._bars[group, phase] = self.progress.add_task(title, total=event.total, message="")
            # The first event of a phase arrives after some of its work: the phase began when the one before ended.
            self.progress.tasks[-1].start_time = self._before
            if group:
                self._groups[group] = (number, bar)
        said = ", ".join(part for part in (phase if group else "", event.message) if part)
        self.message = said if len(said) > _LONG_MESSAGE else ""
        short = "" if self.message else printable(said)
        self.progress.update(bar, completed=event.done, total=event.total, message=short)
        self._before = self.progress.get_time()
