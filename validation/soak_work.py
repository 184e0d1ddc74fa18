"""The kinds of work that a soak mixes. Each says what it found wrong, in words; an exception is a finding too."""

from __future__ import annotations

import contextlib
import hashlib
import io
import shutil
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lln.core.errors import InputError

SMALL = {"members": 1, "epochs": 2, "unroll": 0, "history": 1}
SUFFIXES = (".npz", ".csv", ".h5", ".nc", ".zarr")
STUDY = """\
block = "SOAK"
title = "A run in a worker process"
systems = ["lorenz-24"]
seeds = [{seed}]

[data]
pairs = 64
steps = 10

[recipes.lens]
epochs = 1
learning_rate = 1e-3

[[runs]]
role = "row"
model = "lens"
depth = 2
width = 8
"""

Found = Iterator[str]


class Bench:
    """A folder to work in, and what the present round has made so far.

    Args:
        folder: emptied after every round.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.round = 0
        self.rng = np.random.default_rng(0)
        self.forecaster: Any = None
        self.canary = ""

    def begin(self, number: int) -> None:
        """A new round, with sizes of its own."""
        self.round, self.rng, self.forecaster = number, np.random.default_rng(number), None
        self.folder.mkdir()

    def end(self) -> None:
        """Forget the round."""
        self.forecaster = None
        shutil.rmtree(self.folder)

    def do(self, kind: str) -> list[str]:
        """One piece of work; what was wrong with it."""
        try:
            return list(KINDS[kind](self))
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            return [f"{type(error).__name__}: {error} ({place.name}, line {place.lineno})"]

    def suffix(self, shift: int = 0) -> str:
        """A file format; all of them come round."""
        return SUFFIXES[(self.round + shift) % len(SUFFIXES)]

    def sizes(self) -> dict[str, int]:
        """Sizes of a small network that this round alone may have."""
        return {
            "width": int(self.rng.integers(4, 24)),
            "depth": int(self.rng.integers(1, 5)),
            "basis": int(self.rng.choice([4, 8, 12])),
        }

    def fitted(self) -> Any:
        """A forecaster of this round."""
        if self.forecaster is None:
            import lln

            empty = lln.LensForecaster(random_state=self.round, **SMALL, **self.sizes())
            self.forecaster = empty.fit(lorenz(), dt=0.01)
        return self.forecaster

    def model(self) -> Path:
        """The same as a file."""
        path = self.folder / "model.lln"
        if not path.exists():
            self.fitted().save(path)
        return path


def lorenz(rows: int = 260) -> Any:
    """States of a chaotic system."""
    from lln.data.trajectory import simulated
    from lln.systems import preset

    return simulated(preset("lorenz-28"), rows + 100, dtype="float64").states[101:]


def lln_command(*words: object) -> tuple[int, str]:
    """The command in this process: exit code, and both streams together."""
    from lln.cli import main

    stream, before = io.StringIO(), sys.argv
    sys.argv = ["lln", *map(str, words)]
    code: Any = 0
    try:
        with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
            main()
    except SystemExit as left:
        code = left.code or 0
    finally:
        sys.argv = before
    return int(code), stream.getvalue()


def well(*words: object, code: int = 0) -> Found:
    """Nothing, if the command ends with `code`."""
    got, text = lln_command(*words)
    if got != code or "Traceback" in text:
        yield f"lln {' '.join(map(str, words))} left with {got}: {text.strip()[-300:]}"


def canary(bench: Bench) -> Found:
    """The same fit in every round: the same bits, or something leaks from one into the next."""
    import lln

    made = lln.LensForecaster(width=8, depth=2, basis=8, **SMALL).fit(lorenz(), dt=0.01)
    bits = hashlib.sha256(made.rollout(steps=100).array.tobytes()).hexdigest()
    bench.canary = bench.canary or bits
    if bits != bench.canary:
        yield "the same fit gave other bits than in the first round"


def fit(bench: Bench) -> Found:
    """A fit, saved, loaded, and the same bits from both."""
    import lln

    ours, back = bench.fitted(), lln.load(bench.model())
    if not np.array_equal(ours.rollout(steps=50).array, back.rollout(steps=50).array):
        yield "a loaded model rolls out other bits"


def roll(bench: Bench) -> Found:
    """Rollouts, long and many, members alone, a step there and back."""
    ours, states = bench.fitted(), lorenz()
    if ours.rollout(states[:16], steps=500).array.shape != (16, 501, 3):
        yield "a rollout of 16 starts has another shape"
    ours.sample(steps=50)
    ours.predict(states)
    with contextlib.suppress(InputError):  # no step back is a sentence, not a failure
        ours.invert(states[10])


def evaluate(bench: Bench) -> Found:
    """Scores of the library."""
    import lln

    if not bench.fitted().evaluate(lorenz(), dt=0.01, steps=40).nmse >= 0:
        yield "an error below zero, or none"
    lln.compare(lorenz(), models=("linear", "analog", "persistence"), steps=40, dt=0.01).table.to_markdown()


def field(bench: Bench) -> Found:
    """A field network: fit, rollout."""
    import lln

    phase = 0.05 * np.arange(120)[:, None] + 2 * np.pi * np.arange(16) / 16
    states = np.sin(phase) + 0.3 * np.sin(2 * phase) ** 2
    options = {"width": int(bench.rng.integers(4, 9)), "depth": 2, "basis": 4, "members": 1, "epochs": 1}
    made = lln.LensForecaster(field=True, random_state=bench.round, unroll=0, **options)
    made.fit(states, dt=0.1, grid=[np.arange(16.0)])
    if not np.isfinite(made.rollout(steps=20).array).all():
        yield "a field's rollout of 20 steps is not finite"


def network(bench: Bench) -> Found:
    """A network by itself: gradients both ways, a rollout as one kernel."""
    import torch

    import lln

    net = lln.LensNetwork(5, 5, **bench.sizes(), generator=torch.Generator().manual_seed(bench.round))
    for backend in ("auto", "eager", "reference"):
        net.backend = backend
        net(torch.randn(int(bench.rng.integers(1, 64)), 5)).square().sum().backward()
    net.rollout(torch.randn(3, 5), 1000, increments=True)
    if net.coefficients.grad is None:
        yield "no gradient"


def commands(bench: Bench) -> Found:
    """The way of a user at the shell: simulate, fit, roll out, evaluate, compare, inspect."""
    data, model = bench.folder / f"data{bench.suffix()}", bench.folder / "shell.lln"
    yield from well("simulate", "lorenz-28", "--steps", 200, "--burn-in", 20, "--seed", bench.round, "-o", data)
    yield from well("simulate", "ks-64", "--steps", 20, "--burn-in", 5, "-o", bench.folder / "field.nc")
    words = ("--members", 1, "--epochs", 1, "--width", 8, "--depth", 2, "--history", 1, "--unroll", 0)
    yield from well("fit", data, "-o", model, *words)
    yield from well("rollout", model, "--steps", 50, "-o", bench.folder / f"out{bench.suffix(1)}")
    yield from well("evaluate", model, data, "--steps", 20, "--json")
    yield from well("compare", data, "--models", "linear,persistence", "--steps", 20, "--plot", bench.folder / "c.png")
    yield from well("inspect", model)


def refusals(bench: Bench) -> Found:
    """What is refused leaves nothing behind either."""
    broken = bench.folder / "broken.npz"
    broken.write_bytes(bench.model().read_bytes()[:200])
    yield from well("fit", broken, "-o", bench.folder / "x.lln", code=2)
    yield from well("rollout", broken, "-o", bench.folder / "x.npz", code=2)
    yield from well("simulate", "lorentz", "-o", bench.folder / "x.npz", code=2)
    with contextlib.suppress(InputError):
        bench.fitted().rollout(np.full(3, np.nan))
        yield "NaN was taken for a start"


def exports(bench: Bench) -> Found:
    """Other programs' formats; torch.export takes longest and comes every fourth round."""
    yield from well("export", bench.model(), "-o", bench.folder / "m.onnx", "--rollout")
    yield from well("export", bench.model(), "-o", bench.folder / "c", "-f", "c")
    if bench.round % 4 == 0:
        yield from well("export", bench.model(), "-o", bench.folder / "m.pt2", "-f", "torch")


def pictures(bench: Bench) -> Found:
    """The page, a drawing, and now and then a film."""
    yield from well("page", bench.model(), "-o", bench.folder / "page.html", "--steps", 50)
    # A fit that found its network of no use has no rays to draw, and the command says so.
    lenses = bool(bench.fitted().surrogate_.members)
    yield from well("draw", bench.model(), "-o", bench.folder / "rays.svg", code=0 if lenses else 2)
    if bench.round % 4 == 1:
        yield from well("animate", bench.model(), "-o", bench.folder / "f.gif", "--steps", 20, "--frames", 4)


def search(bench: Bench) -> Found:
    """Two trials in a database of their own."""
    import lln

    fixed = {"history": 1, "members": 1, "epochs": 2, "depth": 2, "batch_size": 64}
    found = lln.search(lorenz(150), 2, storage=bench.folder / "s.db", fixed=fixed, random_state=bench.round)
    if len(found.trials) != 2:
        yield f"{len(found.trials)} trials in place of 2"


def workers(bench: Bench) -> Found:
    """Processes: a study with a worker every third round, and the command as a child."""
    if bench.round % 3 == 0:
        study = bench.folder / "study.toml"
        study.write_text(STUDY.format(seed=bench.round))
        yield from well("reproduce", "--study", study, "--jobs", 1, "--no-report", "--out", bench.folder / "records")
    words = [sys.executable, "-c", "from lln.cli import main; main()", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        yield f"the command as a child left with {done.returncode}: {done.stderr[-200:]}"


def threads(bench: Bench) -> Found:
    """Two rollouts at once, each in a thread of its own, are what each is alone."""
    ours, starts, made = bench.fitted(), lorenz()[:8], {}

    def job(name: str) -> None:
        made[name] = ours.rollout(starts, steps=100).array

    several = [threading.Thread(target=job, args=(name,)) for name in ("one", "two")]
    for thread in several:
        thread.start()
    for thread in several:
        thread.join()
    job("alone")
    if not all(np.array_equal(made["alone"], other) for other in made.values()):
        yield "rollouts in two threads differ from one alone"


KINDS: dict[str, Callable[[Bench], Found]] = {
    work.__name__: work
    for work in (
        canary, fit, roll, evaluate, field, network, commands, refusals, exports, pictures, search, workers, threads,
    )
}  # fmt: skip
