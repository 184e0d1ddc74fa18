"""Command lines that are almost right, for every command and every option that it has."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import typing
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import typer
from typer.core import TyperCommand

from validation.fuzz.guard import WATCH, WorkBegins
from validation.fuzz.mutate import NUMBERS, REALS, TEXTS

# Where the work begins that a command's words ask for; up to there a command only reads.
WORK = (
    "lln.forecaster.forecaster:LensForecaster.fit",
    "lln.forecaster.forecaster:LensForecaster.evaluate",
    "lln.forecaster.comparison.compare:compare",
    "lln.tuning.search:search",
    "lln.export.onnx:export_onnx",
    "lln.export.torch:export_torch",
    "lln.export.c.export:export_c",
    "lln.plots.animate:film_bytes",
    "lln.view.drawing:architecture_figure",
    "lln.view.page:forecaster_page",
    "lln.paper.reproduce:run_study",
    "lln.paper.report:write_report",
    "lln.cli.simulate:trajectories",
    "lln.forecaster.results:rollout_data",
    "lln.cli.doctor:examine",
    "lln.paper.theory.audit:audit_ratios",
)
FILES = (
    "plain.npz",
    "plain.csv",
    "europe.csv",
    "several.npz",
    "plain.lln",
    "forced.lln",
    "field.lln",
    "rollout.toml",
    "broken.npz",
    "broken.lln",
    "empty.csv",
    "folder",
    "none.nc",
    "none.lln",
    "plain.npy",
    "odd.xyz",
)
OUTPUTS = (
    "out.lln",
    "out.npz",
    "out.csv",
    "out.nc",
    "out.html",
    "out.onnx",
    "out.gif",
    "out.svg",
    "out",
    "folder",
    "new/out.lln",
    "plain.npz/out.lln",
    "/proc/none/out.lln",
)
STRANGE = (
    "--",
    "-",
    "--help",
    "--version",
    "--no-such",
    "-x",
    "--out",
    "=",
    "--steps=",
    "",
    "@file",
    "$(id)",
    "; ls",
    "*",
    "../..",
    "~",
    "\u202e",
    "--set=",
)


def prepare(folder: Path) -> None:
    """Files for the words to name, beside the valid ones."""
    (folder / "broken.npz").write_bytes((folder / "plain.npz").read_bytes()[:200])
    (folder / "broken.lln").write_bytes((folder / "plain.lln").read_bytes()[:-9])
    (folder / "empty.csv").write_bytes(b"")
    (folder / "odd.xyz").write_bytes(b"hello")
    (folder / "folder").mkdir(exist_ok=True)


def line(rng: Random) -> list[str]:
    """The words behind `lln`: a command, most of what it asks for, and something that is not quite right."""
    known = _commands()
    name = rng.choice(sorted(known))
    parameters, kinds = known[name]
    words: list[str] = []
    for parameter in parameters:
        wanted = parameter.required or parameter.param_type_name == "argument"
        if parameter.name != "help" and rng.random() < (0.97 if wanted else 0.12):
            words += _spoken(rng, parameter, kinds.get(parameter.name, "str"))
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        words.insert(rng.randrange(len(words) + 1), rng.choice((*STRANGE, *TEXTS)))
    if words and rng.random() < 0.05:
        del words[rng.randrange(len(words))]
    name = name if rng.random() < 0.98 else rng.choice((name[:-1], name.upper(), "", "explode"))
    return [word.replace("\0", "").encode("utf-8", "replace").decode() for word in (name, *words)]


@lru_cache(maxsize=1)
def _commands() -> dict[str, tuple[list[Any], dict[str, str]]]:
    """The parameters of every command, and the types of their values by name."""
    from lln.cli.app import COMMANDS, app, expanded

    made = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    functions = {name: one.function for name in made for one in COMMANDS if one.function.__name__ == name}
    hints = {name: typing.get_type_hints(expanded(function)) for name, function in functions.items()}
    return {name: (made[name].params, {key: str(kind) for key, kind in hints[name].items()}) for name in functions}


def _spoken(rng: Random, parameter: Any, kind: str) -> list[str]:
    """A parameter as words, with a value that it may or may not take."""
    if getattr(parameter, "is_flag", False):
        return [rng.choice(parameter.opts + parameter.secondary_opts)]
    odd = rng.random() < 0.12
    if odd:
        value = str(rng.choice((*NUMBERS, *REALS, *TEXTS, *STRANGE)))
    elif "int" in kind:
        value = str(rng.choice((0, 1, 2, 3, 10)))
    elif "float" in kind:
        value = str(rng.choice((0.1, 0.5, 0.01, 1.0)))
    elif "Path" in kind:
        value = rng.choice(OUTPUTS if "out" in (parameter.name or "") or parameter.name == "plot" else FILES)
    else:
        value = rng.choice(
            (
                "lens",
                "mlp",
                "auto",
                "none",
                "1",
                "3",
                "a",
                "a,b",
                "epochs=1",
                "width=4",
                "time",
                "lorenz-28",
                "ks-128",
                "float",
                "c",
                "onnx",
                "cpu",
                "R0",
                "periodic",
                "rollout",
                "",
                "2,3",
            )
        )
    if parameter.param_type_name == "argument":
        return [value]
    option = rng.choice(parameter.opts)
    return [f"{option}={value}"] if option.startswith("--") and rng.random() < 0.3 else [option, value]


def call(words: list[str], folder: Path) -> None:
    """`lln` with these words, in `folder`; raises what a shell would see as a traceback, or an unfit answer."""
    from lln.cli import main
    from lln.core.errors import InputError

    said, kept = io.StringIO(), (sys.argv, Path.cwd())
    os.chdir(folder)
    sys.argv = ["lln", *words]
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            main()
    except SystemExit as left:
        text = said.getvalue()
        if left.code in (0, None):
            return
        if left.code not in (1, 2) or "Traceback" in text or not text.strip():
            raise RuntimeError(f"exit code {left.code} with {text[-500:]!r}") from None
        if text.startswith("lln: "):
            first, *more = text.splitlines()
            if any(not one.startswith("more: ") for one in more):
                raise RuntimeError(f"more than a line: {text!r}") from None
            raise InputError(first) from None
        raise InputError("usage") from None  # the command's own words about its words
    finally:
        sys.argv = kept[0]
        os.chdir(kept[1])


@contextlib.contextmanager
def cut_off() -> Iterator[None]:
    """Have every command end where its work would begin, and know when it has understood its words."""
    import importlib

    undo: list[tuple[Any, str, Any]] = []

    def begin(*_: Any, **__: Any) -> None:
        raise WorkBegins

    for place in WORK:
        module, _, name = place.partition(":")
        owner: Any = importlib.import_module(module)
        *outer, last = name.split(".")
        for part in outer:
            owner = getattr(owner, part)
        undo.append((owner, last, getattr(owner, last)))
        setattr(owner, last, begin)
    invoke = TyperCommand.invoke
    undo.append((TyperCommand, "invoke", invoke))

    def understood(self: Any, context: Any) -> Any:
        WATCH.past = True
        return invoke(self, context)

    TyperCommand.invoke = understood  # type: ignore[method-assign]
    try:
        yield
    finally:
        for owner, last, kept in undo:
            setattr(owner, last, kept)
