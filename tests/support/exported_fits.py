"""Forecasters to export: every option of `LensForecaster` and of its `fit`, fitted to data of the presets."""

from functools import lru_cache

import numpy as np
from exported import STARTS, SYSTEMS, states_of

from lln.data.series import Dataset, Series
from lln.export.parts import Probe
from lln.forecaster.forecaster import LensForecaster
from lln.models import COMPARATORS
from lln.systems.presets import preset

ROWS = 1000  # that a fit sees; the starts of rollouts lie behind them
SMALL = {"width": 12, "depth": 4, "epochs": 1, "unroll": 0, "members": 1, "history": 1, "ridge": 1e-6}
TAKEN = {"field": {"kernel": 3, "linear_kernel": 5, "blocks": 2, "hidden": 4}}

OPTIONS = {
    "as it comes": {},
    "history": {"history": 3},
    "history, ridge and members left to it": {"history": "auto", "ridge": "auto", "members": None},
    "no linear part": {"ridge": None},
    "no linear part, history": {"ridge": None, "history": 2},
    "three members": {"members": 3},
    "sizes": {"width": 7, "depth": 3, "basis": 5, "optical_length": 2.0},
    "one control point, one layer": {"basis": 1, "depth": 1},
    "unrolled": {"unroll": 3},
    "held out rows kept": {"refit": False, "validation": 0.3, "batch_size": 100, "learning_rate": 1e-3},
    "paper": {"recipe": "paper"},
    "paper, three members": {"recipe": "paper", "members": 3},
    "paper, comparator": {"recipe": "paper", "model": "mlp"},
    **{f"network {model}": {"model": model, "members": 2} for model in COMPARATORS},
}
# What `fit` is given beside the states.
DATA = {
    "varying inputs": {"inputs": "varying"},
    "constant inputs": {"inputs": "constant", "history": 2},
    "inputs, paper": {"inputs": "varying", "recipe": "paper"},
    "weights": {"weights": True},
    "names and units": {"units": True},
    "grid": {"grid": True, "ridge": "auto"},
}
FIELDS = {
    "field": {},
    "field, history and two members": {"history": 2, "members": 2},
    "field, mean kept": {"conserve": "mean"},
    "field, flux": {"conserve": "flux"},
    "field, walls": {"boundary": [("dirichlet", "neumann")]},
    "field, replicated ends": {"boundary": "replicate"},
    "field, no linear part": {"ridge": None, "epochs": 20},
    "field, no linear part, mean kept": {"ridge": None, "epochs": 20, "conserve": "mean"},
    "field, varying inputs": {"inputs": "varying"},
    "field, fixed field": {"static": True},
}
EVERY = [*OPTIONS, *DATA, *FIELDS]


# Every option on one preset; on the others what trains there in another way than in `exported`.
ELSEWHERE = ["as it comes", "paper", "history, ridge and members left to it"]


def cases():
    """Pairs of a preset and an option."""
    more = {system: ELSEWHERE if system == "lorenz-28" else [*ELSEWHERE, "field"] for system in SYSTEMS}
    return [(system, name) for system in SYSTEMS for name in (EVERY if system == "burgers-32" else more[system])]


def driven(rows):
    """Two known inputs at some rows, (rows, 2)."""
    return np.sin(np.asarray(rows)[..., None] / np.array([90.0, 37.0])) + np.array([0.5, -1.0])


def dataset(system, *, inputs=None, weights=False, units=False, grid=False, channels=1):
    states = states_of(system)[:ROWS]
    known = {None: None, "varying": driven(np.arange(ROWS)), "constant": np.tile([0.7, -2.0], (ROWS, 1))}[inputs]
    counts = np.linspace(0.5, 1.5, ROWS) if weights else None
    names = tuple(f"c{i}" for i in range(states.shape[1]))
    given = {"input_names": ("u", "v")} if inputs else {}
    if grid:
        points = states.shape[1] // channels
        given |= {"space": (points,), "channels": ("q", "p")[:channels], "coords": {"x": np.arange(float(points))}}
    if units:
        given["units"] = {**dict.fromkeys(names, "m/s"), "time": "s"}
    # Inputs that stay the same need a second trajectory in which they are others.
    series = [Series(states, known, counts)]
    if inputs == "constant":
        series.append(Series(states[::-1].copy()[:400], np.tile([0.1, 1.0], (400, 1))))
    return Dataset(tuple(series), preset(system).dt, names, **given)


@lru_cache(maxsize=1)
def fitted(system, name):
    """The forecaster of one case."""
    field = name in FIELDS
    given = {**SMALL, **({} if field else {"basis": 8}), **({**OPTIONS, **DATA, **FIELDS}[name])}
    data = {key: given.pop(key) for key in ("inputs", "weights", "units", "grid") if key in given}
    if given.get("model", "lens") != "lens":
        given.pop("basis", None)
    if given.get("recipe") == "paper":
        given.pop("ridge"), given.pop("unroll")
        given["epochs"] = 6
    static = None
    if field:
        data |= {"grid": True, "channels": 2 if system.startswith("spring") else 1}
        options = {key: given.pop(key) for key in ("boundary", "conserve") if key in given}
        given["field"] = {**TAKEN["field"], "boundary": "periodic", "conserve": "none", **options}
    found = dataset(system, **data)
    if given.pop("static", False):
        static = np.random.default_rng(5).normal(size=(*found.space, 2))
    return LensForecaster(**given).fit(found, static=static)


def fitted_probe(system, forecaster, constant=False):
    """Starts on the trajectory behind what was trained on, and inputs like those of training."""
    steps, history = SYSTEMS[system], forecaster.history_
    states = states_of(system)
    window = np.stack([states[first - history + 1 : first + 1] for first in STARTS])
    rows = np.array(STARTS)[:, None] + np.arange(steps)
    known = driven(rows)
    if constant:
        known[:] = 0.7, -2.0
    return Probe(window, known if forecaster.input_names_ else None, steps)
