"""The `lln` program: the list of commands, and the handling of errors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import is_dataclass
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from lln import __version__
from lln.cli import fail
from lln.cli.console import echo
from lln.cli.doctor import doctor, explain
from lln.cli.fit import compare, fit, search
from lln.cli.model import animate, draw, evaluate, export, inspect, page, rollout
from lln.cli.paper import audit, report, reproduce
from lln.cli.simulate import simulate
from lln.core.errors import InputError, failure, out_of_memory, printable

DATA, ELSEWHERE = "From data to a surrogate", "Show and export a surrogate"
PAPER, MACHINE = "The paper", "This installation"

_PLAIN_WORDS = {
    "Input should be": "must be",
    "must be a valid integer, unable to parse string as an integer": "must be a whole number",
    "must be a valid integer, got a number with a fractional part": "must be a whole number",
    "must be a valid number, unable to parse string as a number": "must be a number",
}
_TAKES = {bool: "", Path: "FILE", int: "NUMBER", float: "NUMBER", str: "TEXT"}


class _PlainTypes:
    """Help with plain names for the values of options, and defaults without parentheses.

    Typer shows names of Python types, also for flags, and `(0)` for the text of a default.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for one in found:
            kind = getattr(getattr(one, "type_descriptor", None), "annotation", None)  # of typer 0.29 and newer
            takes = _TAKES.get((get_args(kind) or (kind,))[0])
            if takes is not None and (one.metavar is None or one.param_type_name == "argument"):
                one.display_type_rich = lambda *_, takes=takes, **__: takes
            if isinstance(told := getattr(one, "show_default", None), str):
                one._get_default_string = lambda *_, told=told, **__: told
        return found


class _Command(_PlainTypes, TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if isinstance(message := getattr(error, "message", None), str):
                for told, plain in _PLAIN_WORDS.items():
                    message = message.replace(told, plain)
                error.message = message  # type: ignore[attr-defined]
            raise


class _Group(_PlainTypes, TyperGroup):
    pass


class Command(NamedTuple):
    """One command: its function, the part of the help that lists it, and an example to copy."""

    function: Callable[..., Any]
    panel: str
    example: str


COMMANDS = (
    Command(simulate, DATA, "lln simulate burgers-48 -o b.nc"),
    Command(fit, DATA, "lln fit b.nc -o b.lln --test 0.15"),
    Command(rollout, DATA, "lln rollout b.lln --steps 500 -o r.nc"),
    Command(evaluate, DATA, "lln evaluate b.lln b.nc"),
    Command(compare, DATA, "lln compare b.nc --plot compare.png"),
    Command(search, DATA, "lln search b.nc --budget 20 -o best.lln"),
    Command(inspect, DATA, "lln inspect b.lln"),
    Command(page, ELSEWHERE, "lln page b.lln --open"),
    Command(export, ELSEWHERE, "lln export b.lln -o b.onnx --rollout"),
    Command(animate, ELSEWHERE, "lln animate b.lln --data b.nc -o b.gif"),
    Command(draw, ELSEWHERE, "lln draw b.lln -o b.svg"),
    Command(reproduce, PAPER, "lln reproduce depth-40 --jobs 2"),
    Command(report, PAPER, "lln report --records results/paper"),
    Command(audit, PAPER, "lln audit --json"),
    Command(doctor, MACHINE, "lln doctor"),
    Command(explain, MACHINE, "lln explain transposed"),
)

app = typer.Typer(
    name="lln",
    cls=_Group,
    help="Learnable Lens Networks: small, fast surrogate models of dynamical systems for long rollouts.",
    epilog=f"Example: {COMMANDS[0].example} && {COMMANDS[1].example}",  # one line of 80 columns, to be copied
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lln {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    del version


def _paragraphs(text: str) -> str:
    """A docstring with a line for each paragraph, so that help breaks lines where the terminal ends."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def expanded(command: Callable[..., Any]) -> Callable[..., Any]:
    """`command` with an option for each field of its dataclass parameters, for typer."""
    own = signature(command, eval_str=True)
    kinds: dict[str, Any] = {
        one.name: one.annotation for one in own.parameters.values() if is_dataclass(one.annotation)
    }
    groups = {name: signature(kind, eval_str=True).parameters for name, kind in kinds.items()}
    single = [one for one in own.parameters.values() if one.name not in groups]
    inside = [one for group in groups.values() for one in group.values()]
    parameters = [one.replace(kind=one.KEYWORD_ONLY) for one in (*single, *inside)]

    def call(**words: Any) -> Any:
        made = {name: kinds[name](**{key: words.pop(key) for key in group}) for name, group in groups.items()}
        return command(**words, **made)

    call.__name__, call.__doc__ = command.__name__, command.__doc__
    call.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in parameters}
    return call


for _command in COMMANDS:
    app.command(
        cls=_Command,
        help=_paragraphs(_command.function.__doc__ or ""),
        rich_help_panel=_command.panel,
        epilog=f"Example: {_command.example}",
    )(expanded(_command.function))


def main(*, last: bool = False) -> None:
    """Run the command. Bad input ends it with one sentence and exit code 2, failed work with exit code 1.

    Args:
        last: whether the process ends after it.
    """
    try:
        app()
    except InputError as error:
        for line in (f"lln: {error}", *getattr(error, "__notes__", ())):
            echo(line, err=True)
        sys.exit(2)
    except Exception as error:  # libraries report a lack of memory by many classes
        # A full disk or memory, a broken file system: not the caller's input, and no bug to trace.
        reason = failure(error)
        if reason is None:
            raise
        if last and out_of_memory(error) is not None:
            fail(f"lln: {printable(reason)}\n".encode(errors="replace"), last=True)
        echo(f"lln: {reason}", err=True)
        sys.exit(1)
