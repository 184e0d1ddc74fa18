"""What `LensForecaster()` with its defaults makes of the scenarios: fit, roll out the test starts, keep the rollouts.

Run in the environment that has `lln`, after `data.py`; `score.py` judges the rollouts.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lln

HERE = Path(__file__).parent
STEPS = 200
SCORED = 100


def rolled(train: NDArray[Any], test: NDArray[Any]) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """The states after every test start, (B, steps, C, *space), and what was fitted.

    Args:
        train: (samples, time, C, *space).
        test: the same.
    """
    began, cpu = time.perf_counter(), time.process_time()
    space, channels = train.shape[3:], train.shape[2]
    flat = train.reshape(*train.shape[:2], -1).astype(np.float64)
    model = lln.LensForecaster().fit(list(flat), dt=1.0, grid=space)
    step, report = model.surrogate_, model.report_
    history, steps = step.frame.history, min(STEPS, test.shape[1] - 1)
    # The benchmark gives one state to start from; a model of several is given it several times.
    starts = np.repeat(test[:, :1].reshape(len(test), 1, -1).astype(np.float64), history, axis=1)
    states = step.rollout(starts, steps)
    about = {
        "parameters": report.parameters, "part": report.part, "history": history, "members": report.members,
        "held_out_nmse": report.held_out_nmse, "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu, "device": "cpu",
    }  # fmt: skip
    return states.reshape(len(test), steps, channels, *space), about


def score(states: NDArray[Any], truth: NDArray[Any]) -> float:
    """The geometric mean over the first steps of the mean relative error of a field."""
    axes = tuple(range(2, truth.ndim))
    error = np.sqrt(np.square(states - truth).sum(axis=axes) / np.square(truth).sum(axis=axes)).mean(axis=0)
    return float(np.exp(np.log(error[:SCORED]).mean()))


def main() -> None:
    """Write one file of rollouts a scenario, like `roll.py`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=HERE / "data")
    parser.add_argument("--out", type=Path, default=HERE / "rollouts")
    parser.add_argument("--scenarios", nargs="+", default=["diff_burgers", "diff_adv", "diff_burgers_sc_2d"])
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.scenarios:
        with np.load(options.data / f"{name}.npz") as file:
            train, test = file["train"], file["test"]
        states, about = rolled(train, test)
        found = score(states, test[:, 1 : states.shape[1] + 1].astype(np.float64))
        far = np.abs(states).max(axis=tuple(range(1, states.ndim)))
        diverged = int((~(far <= 2.0 * np.abs(test).max())).sum())
        about |= {
            "scenario": name, "contender": "LensForecaster", "recipe": "defaults", "seeds": [0],
            "scores_in_torch": [found], "starts": len(test), "diverged": diverged, "steps": states.shape[1],
        }  # fmt: skip
        target = options.out / f"{name}.LensForecaster.defaults.npz"
        rollout = states[None, :, :SCORED].astype(np.float32)
        np.savez(target, rollout=rollout, about=json.dumps(about))
        print(f"{target}: {found:.6f}, {about['part']}, {diverged} of {len(test)} starts diverge in {states.shape[1]} "
              f"steps, {about['cpu_seconds']:.0f} s of processor time", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
