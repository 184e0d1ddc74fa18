"""Rollouts of a fitted forecaster beside those of other packages, on the same data, one start and many.

PySINDy and ReservoirPy are looked for in `packages` beside this file, where `make bench-peers` installs them.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.speed.contenders import compiled, in_onnx_runtime, no_compiler, no_onnx
from benchmarks.speed.rows import Row, timed
from benchmarks.speed.setting import Setting
from benchmarks.speed.timing import Contender, Times, race
from lln.models import PlainMLP

PACKAGES = Path(__file__).parent / "packages"
STATES, STEPS, SHORT = 2000, 500, 5
STARTS = (1, 256)
RESERVOIR, GAMMA = 300, 1.0  # units; of the kernel, in standard units
WIDTH, DEPTH = 128, 4  # of the plain network

Array = NDArray[np.float64]
Advance = Callable[[Array], Array]  # states (B, n) -> the next ones


def peers(setting: Setting) -> list[Row]:
    """500 steps of Lorenz-28 from one start and from 256, by each package's quickest way to many starts.

    Those that are called step by step from Python run a few steps, and their times are multiplied.
    """
    if setting.device != "cpu":
        setting.skip("peers", "they are measured on the CPU")
        return []
    from lln import LensForecaster, preset, simulate

    states = simulate(preset("lorenz-28"), steps=STATES, dtype="float64").states
    setting.say("fitting the peers")
    ours = {
        "lln": LensForecaster().fit(states, dt=0.01),
        "lln, lenses alone": LensForecaster(parts=("linear", "lens")).fit(states, dt=0.01),
    }
    mean, scale = states.mean(axis=0), states.std(axis=0)
    advances = _advances(setting, (states - mean) / scale)
    rows: list[Row] = []
    for starts in STARTS[:1] if setting.quick else STARTS:
        setting.say(f"rollouts of peers, {starts} starts")
        x = states[np.linspace(0, len(states) - 1, starts).astype(int)]
        contenders = {name: _rollout(model, x) for name, model in ours.items()}
        contenders |= {name: _loop(make(starts), (x - mean) / scale) for name, make in advances.items()}
        times = race(contenders, seconds=setting.seconds, least=setting.least)
        notes = dict.fromkeys(advances, f"{SHORT} steps measured, times {STEPS // SHORT}")
        for name in notes:
            times[name] = Times(tuple(t * (STEPS / SHORT) for t in times[name].seconds))
        rows += timed("rollout of a package", {"B": starts, "n": 3, "steps": STEPS}, times, notes)
    return rows


def _rollout(model: Any, x: Array) -> Contender:
    windows = np.repeat(x[:, None], model.history_, axis=1) if model.history_ > 1 else x
    return lambda: model.rollout(windows, STEPS)


def _loop(advance: Advance, x: Array) -> Contender:
    def run() -> object:
        state = x
        for _ in range(SHORT):
            state = advance(state)
        return state

    return run


def _advances(setting: Setting, states: Array) -> dict[str, Callable[[int], Advance]]:
    """What makes one step for so many starts, by name of the package, each fitted to the same standard states."""
    found: dict[str, Callable[[int], Advance]] = {"kernel ridge": _kernel_ridge(states)}
    for name, module, make in (("PySINDy", "pysindy", _sindy), ("ReservoirPy", "reservoirpy", _reservoir)):
        package = _package(module)
        if package is None:
            setting.skip(name, "it is not installed; `make bench-peers` installs it")
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[name] = make(package, states)
    network = PlainMLP(3, 3, width=WIDTH, depth=DEPTH, generator=torch.Generator().manual_seed(0)).eval()
    reason = no_compiler("cpu")
    if reason is None and not setting.quick:
        found["compiled MLP"] = lambda starts: _torch(compiled(network), starts)
    else:
        setting.skip("compiled MLP", reason or "torch.compile takes a minute")
    reason = no_onnx()
    if reason is None and not setting.quick:
        found["MLP in ONNX Runtime"] = lambda starts: _onnx(network, starts)
    else:
        setting.skip("MLP in ONNX Runtime", reason or "the export takes a minute")
    return found


def _package(name: str) -> Any | None:
    if PACKAGES.is_dir() and str(PACKAGES) not in sys.path:
        sys.path.append(str(PACKAGES))  # behind everything else: it must not replace a dependency
    try:
        return import_module(name)
    except ImportError:
        return None


def _kernel_ridge(states: Array) -> Callable[[int], Advance]:
    from sklearn.kernel_ridge import KernelRidge

    model = KernelRidge(kernel="rbf", gamma=GAMMA, alpha=1e-8).fit(states[:-1], np.diff(states, axis=0))
    return lambda _: lambda x: x + model.predict(x)


def _sindy(package: Any, states: Array) -> Callable[[int], Advance]:
    library = package.PolynomialLibrary(degree=2)
    model = package.DiscreteSINDy(optimizer=package.STLSQ(threshold=1e-4), feature_library=library)
    model.fit(states, t=1.0)
    return lambda _: lambda x: np.asarray(model.predict(x))


def _reservoir(package: Any, states: Array) -> Callable[[int], Advance]:
    """An echo state network has one state: many starts run one after the other."""
    nodes = import_module("reservoirpy.nodes")
    model = nodes.Reservoir(units=RESERVOIR, lr=0.5, sr=0.9, seed=0) >> nodes.Ridge(ridge=1e-6)
    model.fit(states[:-1], states[1:], warmup=100)
    del package
    return lambda _: lambda x: np.stack([model.step(row) for row in x])


def _torch(network: Callable[..., Any], starts: int) -> Advance:
    del starts

    def advance(x: Array) -> Array:
        with torch.no_grad():
            change: Array = network(torch.from_numpy(x).float()).double().numpy()
        return x + 0.01 * change

    return advance


def _onnx(network: PlainMLP, starts: int) -> Advance:
    call = in_onnx_runtime(network, torch.zeros(starts, 3))
    return lambda x: x + 0.01 * call(x.astype(np.float32)).astype(np.float64)
