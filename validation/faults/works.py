"""The work that is broken: small fits, searches, studies, exports and data, and how to tell what came of it."""

from __future__ import annotations

import hashlib
import multiprocessing
import shutil
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from validation.faults.forks import Ended, Hook, ask, command

SMALL = ("--width", "8", "--depth", "2", "--basis", "6", "--members", "1", "--history", "1", "--ridge", "none")
FIT = ("--epochs", "3", *SMALL, "--unroll", "0", "--validation", "0.2")
STUDY = """
block = "TINY"
title = "Seven runs in about a second"
systems = ["lorenz-24"]
seeds = [0]
[data]
pairs = 64
steps = 10
burn_in = 5
[recipes.lens]
epochs = 1
learning_rate = 1e-3
[recipes.comparator]
epochs = 1
learning_rate = 3e-4
[[runs]]
role = "row"
model = "lens"
depth = [2, 3]
width = 8
horizon = 0.5
[[runs]]
role = "row"
model = "mlp"
depth = [2, 3, 4]
width = 8
[[runs]]
role = "reference"
model = ["training-mean", "linear"]
"""
PIECES = ("*.partial", "*.old", "*.new", "*.checkpoint", "*-journal", "*.tmp")


@dataclass(frozen=True)
class Work:
    """One command and its result.

    Attributes:
        name: in the table.
        words: of the command.
        again: of the command that goes on after a fault.
        target: the file or folder that it writes.
        result: a name for what a folder holds, None if there is nothing; raises if it holds something half-written.
        kept: what is finished in a folder, item by item; of a single file, the file.
        before: to be called in the fork.
        other: words of the same command that give another result, for what was there before.
    """

    name: str
    words: tuple[str, ...]
    again: tuple[str, ...]
    target: str
    result: Callable[[Path], str | None]
    kept: Callable[[Path], Mapping[str, Any]] = field(default=lambda _: {})
    before: Hook | None = None
    other: tuple[str, ...] = ()


@dataclass(frozen=True)
class Expected:
    """What a work leaves when nothing goes wrong: its result, its folder, how long it takes, and an older result."""

    result: str
    folder: Path
    seconds: float
    older: Path | None
    older_result: str | None


def hash_of(path: Path) -> str | None:
    """The content of a file or folder."""
    if not path.exists():
        return None
    hasher = hashlib.sha256()
    for one in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if one.is_file():
            hasher.update(one.relative_to(path).as_posix().encode() + b"\0" + one.read_bytes())
    return hasher.hexdigest()


def model(path: Path) -> str | None:
    """Every tensor and a rollout of a model file, which holds also how long the fit took."""
    if not path.exists():
        return None
    from safetensors.numpy import load_file

    from lln.forecaster.file import load

    hasher = hashlib.sha256(load(path).rollout(steps=5).array.tobytes())
    for name, tensor in sorted(load_file(path).items()):
        hasher.update(name.encode() + tensor.tobytes())
    return hasher.hexdigest()


def trials(path: Path, name: str = "lln") -> dict[str, Any]:
    """The trials of a search that ended."""
    if not path.exists() or path.stat().st_size == 0:
        return {}
    import sqlite3

    with closing(sqlite3.connect(path, timeout=60)) as shelf:
        tables = {name for (name,) in shelf.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables >= {"trials", "trial_params", "trial_values"}:
            return {}
        ended = shelf.execute(
            "SELECT trial_id, number FROM trials JOIN studies USING (study_id) "
            "WHERE study_name = ? AND state IN ('COMPLETE', 'PRUNED')", (name,)
        ).fetchall()  # fmt: skip
        return {
            str(number): tuple(
                tuple(shelf.execute(f"SELECT {columns} FROM {table} WHERE trial_id = ? ORDER BY 1", (one,)))
                for table, columns in (("trial_params", "param_name, param_value"), ("trial_values", "value"))
            )
            for one, number in ended
        }


def records(folder: Path) -> dict[str, str]:
    """The lines of a study's records, by digest."""
    from lln.paper.records import read_records

    return {digest: record.line() for digest, record in read_records(folder).items() if record.done}


def study_result(folder: Path) -> str | None:
    """All records and what they are for."""
    if not (folder / "records.jsonl").exists():
        return None
    return f"{hash_of(folder / 'records.jsonl')} {hash_of(folder / 'blocks.json')}"


def forked_workers() -> None:
    """Workers of this machine as forks too: a fresh process would spend its time on imports."""
    usual = multiprocessing.get_context
    multiprocessing.get_context = lambda method=None: usual("fork" if method == "spawn" else method)


def save_at_once() -> None:
    """Checkpoints at every turn, so that a fit of a second has many."""
    from lln.train import loop

    loop.EVERY = 0.0


def _failed(path: Path) -> int:
    """The trials of a search that ended with an error of their own."""
    if not trials(path):
        return 0
    import sqlite3

    with closing(sqlite3.connect(path, timeout=60)) as shelf:
        found = shelf.execute(
            "SELECT COUNT(*) FROM trials JOIN trial_user_attributes USING (trial_id) "
            "WHERE state = 'FAIL' AND key = 'error'"
        )
        return int(found.fetchone()[0])


def search_result(path: Path, budget: int) -> str | None:
    """Whether a search is complete; which trials it tries after a fault is its own affair.

    A trial whose options did not work here, for example for lack of memory, has ended too: the search counts it as
    failed, and says so.
    """
    done = len(trials(path)) + _failed(path)
    return None if done == 0 else "complete" if done >= budget else f"{done} trials"


class Bench:
    """A folder with the inputs of every work, and what each gives when nothing goes wrong."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.inputs = home / "inputs"
        self.inputs.mkdir(parents=True)
        self._expected: dict[str, Expected] = {}
        self._count = 0
        data, study = self.inputs / "a.npz", self.inputs / "tiny.toml"
        study.write_text(STUDY)
        (self.inputs / "longer.toml").write_text(STUDY.replace("[2, 3, 4]", str([*range(2, 34)])))
        self._make(("simulate", "lorenz-28", "--steps", "150", "--burn-in", "50", "-o", str(data)))
        for seed in ("0", "1"):
            self._make(("fit", str(data), "-o", str(self.inputs / f"{seed}.lln"), *FIT, "--seed", seed))
        self.works = {work.name: work for work in self._works(str(data), str(study))}

    def _make(self, words: tuple[str, ...]) -> None:
        ended = command(words, self.inputs)
        if ended.code:
            raise RuntimeError(f"the harness's own {' '.join(words)} failed: {ended.text}")

    def _works(self, data: str, study: str) -> list[Work]:
        zero, one = str(self.inputs / "0.lln"), str(self.inputs / "1.lln")
        fit = ("fit", data, "-o", "m.lln", *FIT)
        search = ("search", data, "--budget", "3", "--storage", "s.db", "--set", "epochs=1")
        search += tuple(word for key in ("width=8", "depth=2", "basis=6", "members=1", "history=1", "ridge=none")
                        for word in ("--set", key))  # fmt: skip
        reproduce = ("reproduce", "--study", study, "--out", "records", "--jobs", "1", "--no-report")
        found = [
            Work("fit", fit, (*fit, "--resume"), "m.lln", lambda at: model(at / "m.lln"), before=save_at_once,
                 other=(*fit, "--seed", "1")),
            Work("search", search, (*search, "--resume"), "s.db", lambda at: search_result(at / "s.db", 3),
                 kept=lambda at: trials(at / "s.db")),
            Work("study", reproduce, reproduce, "records", lambda at: study_result(at / "records"),
                 kept=lambda at: records(at / "records"), before=forked_workers),
        ]  # fmt: skip
        for name, more, target in (("onnx", (), "m.onnx"), ("c", ("-f", "c"), "c")):
            words = ("export", zero, "-o", target, *more)
            found.append(_file(f"export {name}", words, target, ("export", one, "-o", target, *more)))
        for suffix in ("npz", "npy", "csv", "nc", "h5", "zarr"):
            words = ("simulate", "lorenz-28", "--burn-in", "50", "-o", f"d.{suffix}", "--steps")
            found.append(_file(f"simulate {suffix}", (*words, "120"), f"d.{suffix}", (*words, "60")))
        for suffix in ("npz", "csv", "nc"):
            words = ("rollout", zero, "-o", f"r.{suffix}", "--steps")
            found.append(_file(f"rollout {suffix}", (*words, "40"), f"r.{suffix}", (*words, "20")))
        words = ("simulate", "lorenz-28", "--dtype", "float64", "-o", "d.csv", "--steps", "4000", "--burn-in", "0")
        seeds = tuple(word for seed in "12345" for word in ("--seed", seed))
        found.append(_file("simulate long", (*words, *seeds), "d.csv", ()))  # megabytes of numbers
        # What a cluster works on must still be under way when the second of its machines is lost.
        budget = ("--budget", "8")
        slow = (*reproduce[:2], str(self.inputs / "longer.toml"), *reproduce[3:])
        return [
            *found,
            replace(found[1], name="long search", words=(*search, *budget), again=(*search, *budget, "--resume"),
                    result=lambda at: search_result(at / "s.db", 8)),
            replace(found[2], name="long study", words=slow, again=slow),
        ]  # fmt: skip

    def folder(self) -> Path:
        """A new empty one."""
        self._count += 1
        place = self.home / f"{self._count:04d}"
        place.mkdir()
        return place

    def expected(self, work: Work) -> Expected:
        """The result without a fault; made twice, since what differs between two equal runs can prove nothing."""
        if work.name not in self._expected:
            ends = [self.folder() for _ in range(2)]
            ended = [command(work.words, place, work.before) for place in ends]
            results = [ask(work.result, place) for place in ends]
            if any(one.code for one in ended) or results[0] is None or results[0] != results[1]:
                raise RuntimeError(f"{work.name} has no result of its own: {ended}, {results}")
            older = self.folder() if work.other else None
            if older is not None:
                command(work.other, older, work.before)
            self._expected[work.name] = Expected(
                results[0], ends[0], ended[1].seconds, older, ask(work.result, older) if older else None
            )
        return self._expected[work.name]

    def begin(self, work: Work, older: bool) -> Path:
        """A folder to work in, with an older result in it if that is wanted and there is one."""
        place, before = self.folder(), self.expected(work).older
        if older and before is not None:
            shutil.copytree(before, place, dirs_exist_ok=True)
        return place


def _file(name: str, words: tuple[str, ...], target: str, other: tuple[str, ...]) -> Work:
    return Work(name, words, words, target, lambda at: hash_of(at / target), other=other)


def pieces(folder: Path) -> list[str]:
    """What a fault left lying about."""
    return sorted({path.name for pattern in PIECES for path in folder.rglob(pattern)})


def look(work: Work, folder: Path) -> tuple[str | None, dict[str, Any]]:
    """The result and the finished items of a folder, read by another process."""
    return ask(lambda: (work.result(folder), dict(work.kept(folder))))


def ways(ended: Ended) -> str:
    """How a command ended, for the table."""
    if ended.code < 0:
        return "killed"
    return {0: "finished", 1: "said why, exit 1", 2: "refused, exit 2", 130: "interrupted"}.get(
        ended.code, f"exit {ended.code}"
    )
