"""Every reader of lln: how its cases are made, how it is called, and where its header ends."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from validation.fuzz import data_files, stored_files, words
from validation.fuzz.guard import WATCH, marked
from validation.fuzz.mutate import damaged


@dataclass(frozen=True)
class Reader:
    """One reader.

    Attributes:
        name: in the table.
        suffix: of its files.
        read: reads a case, and looks at what came of it.
        past: functions that are called once the header is read.
        made: a case made from choices, without a valid file; None if every case begins with one.
        bent: a valid file, changed where its format allows it; None if that is left to `made`.
        seconds: that a case may take.
    """

    name: str
    suffix: str
    read: Callable[[Path], Any]
    past: tuple[str, ...]
    made: Callable[[Random], bytes] | None = None
    bent: Callable[[Random, bytes, list[bytes]], bytes] | None = None
    seconds: float = 20.0


def _data(path: Path) -> None:
    from lln.data.read.formats import read

    dataset = read(path)
    dataset.digest()
    dataset.transitions()


def _model(path: Path) -> None:
    from lln.forecaster.file import describe, load

    describe(path)
    model = load(path)
    str(model.summary())
    if not model.input_names_:
        model.rollout(steps=2)


def _network(path: Path) -> None:
    from lln.models import load_model

    load_model(path)


def _checkpoint(path: Path) -> None:
    from lln.train.loop import Checkpoint

    one = Checkpoint(path, stored_files.JOB)
    one.get("choice")
    one.get("training/0")


def _study(path: Path) -> None:
    from lln.paper.spec import load_study

    load_study(path)


def _records(path: Path) -> None:
    from lln.paper.records import read_blocks, read_records, read_times

    read_records(path)
    read_times(path)
    read_blocks(path)


def _command(path: Path) -> None:
    words.call(json.loads(path.read_text()), path.parent)


def _bent_study(rng: Random, seed: bytes, others: list[bytes]) -> bytes:
    del others
    return stored_files.study(rng, seed)


def _line(rng: Random) -> bytes:
    return json.dumps(words.line(rng)).encode()


_STORE = ("lln.data.read.formats:interpret",)
READERS = {
    one.name: one
    for one in (
        Reader("npy", ".npy", _data, _STORE, data_files.npy),
        Reader("npz", ".npz", _data, _STORE, data_files.npz),
        Reader("CSV", ".csv", _data, _STORE, data_files.csv),
        Reader("HDF5", ".h5", _data, _STORE, data_files.hdf5),
        Reader("NetCDF", ".nc", _data, _STORE, data_files.netcdf),
        Reader("Zarr", ".zarr", _data, _STORE),
        Reader("model", ".lln", _model, ("lln.forecaster.file:Layout.from_record",), bent=stored_files.safetensors),
        Reader("network", ".net", _network, ("lln.models.files:check_config_size",), bent=stored_files.safetensors),
        Reader("checkpoint", ".checkpoint", _checkpoint, ("lln.train.loop:_checked",), bent=stored_files.safetensors),
        Reader("study", ".toml", _study, ("lln.paper.spec:_listed",), bent=_bent_study),
        Reader("records", ".records", _records, ("lln.paper.records:digest",)),
        Reader("command", ".json", _command, (), _line, seconds=60.0),
    )
}
"""Every reader by name."""


def write_seeds(folder: Path) -> None:
    """Valid files for every reader."""
    folder.mkdir(parents=True, exist_ok=True)
    data_files.write_seeds(folder)
    stored_files.write_models(folder)
    stored_files.write_networks(folder)
    stored_files.write_checkpoints(folder)
    stored_files.write_studies(folder)
    words.prepare(folder)


class Cases:
    """Cases of one reader, from the valid files in `seeds`, written to `folder` one at a time."""

    def __init__(self, reader: Reader, seeds: Path, folder: Path) -> None:
        self.reader, self.target = reader, folder / f"case{reader.suffix}"
        found = sorted(seeds.glob(f"*{reader.suffix}"))
        self.files = [path.read_bytes() for path in found if path.is_file() and path.stem[:5] not in ("broke", "empty")]
        if reader.bent is stored_files.safetensors:
            # A hostile file carries no digest: whole files from before there were digests have none either.
            self.files += [stored_files.unsealed(content) for content in self.files for _ in range(9)]
        self.folders = [
            {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}
            for path in found
            if path.is_dir()
        ]
        if reader.name == "command":
            shutil.copytree(seeds, folder, dirs_exist_ok=True)

    def write(self, rng: Random) -> Path:
        """The case that these choices stand for."""
        if self.reader.name == "Zarr":
            data_files.zarr(rng, self.folders, self.target)
        elif self.reader.name == "records":
            stored_files.records(rng, self.target)
        else:
            self.write_bytes(self._content(rng))
        return self.target

    def write_bytes(self, content: bytes) -> Path:
        """This very file as a case."""
        self.target.write_bytes(content)
        return self.target

    def _content(self, rng: Random) -> bytes:
        made, bent = self.reader.made, self.reader.bent
        if self.reader.name == "command":
            assert made is not None
            return made(rng)
        if made is not None and rng.random() < 0.7:
            content = made(rng)
            return damaged(rng, content, self.files) if rng.random() < 0.25 else content
        seed = rng.choice(self.files)
        if bent is not None and rng.random() < 0.88:
            return bent(rng, seed, self.files)
        return damaged(rng, seed, self.files)


@contextlib.contextmanager
def ready(reader: Reader, *, contained: bool = False) -> Iterator[None]:
    """A reader with its header marked; HDF5, NetCDF and Zarr are read in this process unless `contained`."""
    from lln.data.read import formats
    from lln.data.read.sandbox_worker import OPENERS

    kept = {suffix: formats.FORMATS.get(suffix) for suffix in formats.FORMATS}
    for suffix, form in kept.items():
        if form.name in OPENERS and not contained:
            formats.FORMATS.register(suffix, replace(form, read=OPENERS[form.name]))
    WATCH.spawns = contained
    with contextlib.ExitStack() as stack:
        if reader.name == "command":
            stack.enter_context(words.cut_off())
        else:
            stack.enter_context(marked(reader.past))
        try:
            yield
        finally:
            for suffix, form in kept.items():
                formats.FORMATS.register(suffix, form)
            WATCH.spawns = False
