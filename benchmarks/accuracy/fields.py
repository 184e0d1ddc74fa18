"""`python -m benchmarks.accuracy.fields`: whether rollouts of fields stay, four times the length of training.

Korteweg-de Vries, Kuramoto-Sivashinsky and Burgers fields of `lln.systems` through `LensForecaster()`. Thirty starts
that were not trained on are rolled out four times as long as a trajectory of training. A start diverges where it leaves
twice the range of the true states.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln import LensForecaster
from lln.core.provenance import provenance
from lln.core.safe_files import whole_file
from lln.systems.advance import stepper
from lln.systems.fields.lines import Burgers1D, KortewegDeVries, KuramotoSivashinsky
from lln.systems.fields.spectral import SpectralField

TRAINED, LENGTH, STARTS, BEYOND = 25, 50, 30, 4
SYSTEMS: dict[str, SpectralField] = {
    "Korteweg-de Vries": KortewegDeVries(),
    "Kuramoto-Sivashinsky": KuramotoSivashinsky(points=64, length=22.0),
    "Burgers": Burgers1D(nu=0.05, dt=0.05, substeps=4),
}
OUT = Path(__file__).resolve().parents[1] / "results" / "accuracy-fields.json"


def trajectories(system: SpectralField) -> NDArray[np.float64]:
    """States from random starts, behind the system's own transient, (starts, time, points)."""
    advance, states = stepper(system), np.stack([system.random_start(k) for k in range(TRAINED + STARTS)])
    for _ in range(getattr(system, "burn_in", 0)):
        states = advance(states)
    found = [states]
    for _ in range(BEYOND * LENGTH):
        found.append(advance(found[-1]))
    return np.stack(found, axis=1)


def row(system: SpectralField) -> dict[str, Any]:
    """One fit, and the errors of its rollouts."""
    states = trajectories(system)
    train, truth = states[:TRAINED, : LENGTH + 1], states[TRAINED:]
    began, cpu = time.perf_counter(), time.process_time()
    model = LensForecaster().fit(list(train), dt=system.dt, grid=train.shape[2:])
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    history = model.surrogate_.frame.history
    predicted, wanted = model.surrogate_.rollout(truth[:, :history], truth.shape[1] - history), truth[:, history:]
    far = np.abs(predicted - truth.mean()).max(axis=(1, 2))
    diverged = int((~(far <= 2.0 * np.abs(truth - truth.mean()).max())).sum())
    error = np.linalg.norm(predicted - wanted, axis=2) / np.linalg.norm(wanted - truth.mean(), axis=2)
    by_step = np.median(error, axis=0)
    report = model.report_
    return {
        "diverged": diverged, "starts": STARTS, "steps": len(by_step), "part": report.part, "history": history,
        "errors": {str(k): float(f"{by_step[k - 1]:.3g}") for k in (1, 10, 50, 100, len(by_step))},
        "held_out_nmse": report.held_out_nmse, "linear_nmse": report.linear_nmse, "seconds": seconds,
        "cpu_seconds": cpu, "notes": list(report.notes),
    }  # fmt: skip


def main() -> None:
    """Run every system, print a line each, and store the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=list(SYSTEMS), choices=list(SYSTEMS))
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    stored = json.loads(options.out.read_text()) if options.out.exists() else {"rows": {}}
    stored["made"] = provenance("torch", "numpy", "scipy")
    for name in options.only:
        found = stored["rows"][name] = row(SYSTEMS[name])
        with whole_file(options.out) as path:
            Path(path).write_text(json.dumps(stored, indent=1) + "\n")
        errors = ", ".join(f"{step}: {error:.2g}" for step, error in found["errors"].items())
        print(f"{name}: {found['diverged']} of {STARTS} starts diverge within {found['steps']} steps; median relative "
              f"error at step {errors}; {found['part']}, {found['cpu_seconds']:.0f} s", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
