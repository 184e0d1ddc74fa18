"""Files cut short, and files with a flipped byte, in every region: never taken for whole."""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from validation.faults.forks import ask, command, kill_at
from validation.faults.outcome import LOST, WRONG, Outcome
from validation.faults.works import Bench, hash_of, model, ways

Harm = Callable[[bytes, float, random.Random], bytes]


@dataclass(frozen=True)
class Patient:
    """A file to damage, and how it is read.

    Attributes:
        name: in the table.
        folder: with the whole file and what belongs to it.
        file: in it.
        words: of a command that reads it.
        result: what the command makes of it, to be compared with what it makes of the whole file.
        sums: whether the format can tell a flipped byte; CSV and npy hold bare numbers.
        before: called in the fork.
    """

    name: str
    folder: Path
    file: str
    words: tuple[str, ...]
    result: Callable[[Path], Any]
    sums: bool = True
    before: Callable[[], None] | None = None


FEW = ("model file", "study's records.jsonl", "data, npz")


def cut_short(bench: Bench, count: int, seed: int, only: Sequence[str] = ()) -> Iterator[Outcome]:
    """`count` cuts of each file, spread over its length."""
    yield from _damaged(bench, count, seed, "cut short", _cut, only)


def flipped(bench: Bench, count: int, seed: int, only: Sequence[str] = ()) -> Iterator[Outcome]:
    """`count` flipped bytes of each file, one for each region of it."""
    yield from _damaged(bench, count, seed, "flipped byte", _flip, only)


def _cut(content: bytes, share: float, _: random.Random) -> bytes:
    return content[: max(1, min(len(content) - 1, int(share * len(content))))]


def _flip(content: bytes, share: float, draw: random.Random) -> bytes:
    place = min(len(content) - 1, int(share * len(content)))
    return content[:place] + bytes([content[place] ^ draw.randint(1, 255)]) + content[place + 1 :]


def _damaged(bench: Bench, count: int, seed: int, kind: str, harm: Harm, only: Sequence[str]) -> Iterator[Outcome]:
    draw = random.Random(f"{seed} {kind}")
    for name, make in patients(bench).items():
        if only and name not in only:
            continue
        patient = make()
        right = _use(bench, patient, None)[1]
        for region in range(count):
            content = (patient.folder / patient.file).read_bytes()
            bad = harm(content, (region + draw.random()) / count, draw)
            yield _read(bench, patient, kind, bad, right)


def _use(bench: Bench, patient: Patient, content: bytes | None) -> tuple[Any, Any, Path]:
    place = bench.folder()
    shutil.copytree(patient.folder, place, dirs_exist_ok=True)
    if content is not None:
        (place / patient.file).write_bytes(content)
    ended = command(patient.words, place, patient.before)
    return ended, ask(patient.result, place) if ended.code == 0 else None, place


def _read(bench: Bench, patient: Patient, kind: str, content: bytes, right: Any) -> Outcome:
    ended, result, place = _use(bench, patient, content)
    outcome = Outcome(kind, patient.name, ways(ended), place=place)
    outcome.traces(ended)
    if ended.code == 0 and result != right:
        outcome.ended = "read; the format cannot tell"
        if patient.sums or (kind == "cut short" and not _says_so(content, result)):
            outcome.findings.append(f"{WRONG}: damage went unnoticed and changed the result")
    elif ended.code == 0:
        outcome.ended = "harmless, same result"
    elif ended.code != 2 or not ended.said.startswith("lln: "):
        outcome.findings.append(f"{LOST}: not refused with exit 2 and a sentence ({ended.code}): {ended.text[-800:]}")
    if not outcome.findings:
        shutil.rmtree(place, ignore_errors=True)
    return outcome


def _says_so(content: bytes, result: str) -> bool:
    """Whether rows that are missing at the end of a table cannot be missed, or are noted."""
    return content.endswith(b"\n") or "cut short" in result


def patients(bench: Bench) -> dict[str, Callable[[], Patient]]:
    """Model, checkpoint, records, search storage and formats of data, each made when it is asked for."""
    found: dict[str, Callable[[], Patient]] = {
        "model file": partial(_model, bench),
        "checkpoint": partial(_checkpoint, bench),
    }
    for name in ("records.jsonl", "times.jsonl", "blocks.json"):
        found[f"study's {name}"] = partial(_records, bench, name)
    found["search's database"] = partial(_database, bench)
    for suffix in ("npz", "npy", "csv", "nc"):
        found[f"data, {suffix}"] = partial(_data, bench, suffix)
    return found


def _model(bench: Bench) -> Patient:
    folder = bench.folder()
    shutil.copy(bench.inputs / "0.lln", folder / "m.lln")
    words = ("rollout", "m.lln", "--steps", "10", "-o", "r.npz")
    return Patient("model file", folder, "m.lln", words, lambda at: hash_of(at / "r.npz"))


def _records(bench: Bench, name: str) -> Patient:
    work = bench.works["study"]
    folder = bench.expected(work).folder
    return Patient(f"study's {name}", folder, f"records/{name}", work.words, work.result, before=work.before)


def _database(bench: Bench) -> Patient:
    work = bench.works["search"]
    return Patient("search's database", bench.expected(work).folder, "s.db", work.again, lambda at: work.kept(at))


def _data(bench: Bench, suffix: str) -> Patient:
    folder, name = bench.folder(), f"d.{suffix}"
    shutil.copy(bench.expected(bench.works[f"simulate {suffix}"]).folder / name, folder / name)
    return Patient(
        f"data, {suffix}",
        folder,
        name,
        ("fit", name, "-o", "m.lln"),
        lambda at: (at / "digest").read_text(),
        sums=suffix not in ("npy", "csv"),
        before=_only_read,
    )


def _only_read() -> None:
    """Let a fit end where it has read its data, and leave their digest."""
    from lln.cli import fit

    def train(_: Any, dataset: Any, out: Path, **__: Any) -> None:
        (out.parent / "digest").write_text("\n".join([dataset.digest(), *dataset.notes]))
        sys.exit(0)

    fit.train = train


def _checkpoint(bench: Bench) -> Patient:
    """A fit that was killed when it had a good part of its way behind it."""
    work, place = bench.works["fit"], bench.folder()

    def install() -> None:
        assert work.before is not None
        work.before()
        kill_at(12)()

    command(work.words, place, install)
    if not (place / "m.lln.checkpoint").exists():
        raise RuntimeError("the harness found no checkpoint to damage")
    return Patient(
        "checkpoint", place, "m.lln.checkpoint", work.again, lambda at: model(at / "m.lln"), before=work.before
    )
