"""The front door: the list of commands, and how errors leave it."""

from __future__ import annotations

import sys

import typer

from lln import __version__
from lln.cli.audit import audit
from lln.cli.bench import bench
from lln.cli.doctor import doctor
from lln.cli.report import report
from lln.cli.reproduce import reproduce
from lln.core.errors import InputError

app = typer.Typer(
    name="lln",
    help="Learnable Lens Networks: surrogates of dynamical systems that stay right for long rollouts.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
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


app.command()(audit)
app.command()(bench)
app.command()(doctor)
app.command()(report)
app.command()(reproduce)


def main() -> None:
    """Run the command; bad input leaves with one sentence and exit code 2."""
    try:
        app()
    except InputError as error:
        typer.echo(f"lln: {error}", err=True)
        sys.exit(2)
