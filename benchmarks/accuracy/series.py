"""`python -m benchmarks.accuracy.series`: measured series through `LensForecaster()`, beside tuned baselines.

The series ship inside the packages statsmodels, sktime and vega_datasets, which `make bench-accuracy` unpacks into
benchmarks/accuracy/packages. The last quarter of each is unseen; errors are mean squares over rolling origins there,
divided by the variance of the rows that train.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.accuracy.baselines import roll, tuned
from lln import LensForecaster
from lln.core.atomic import whole_file
from lln.core.provenance import provenance

Array = NDArray[np.float64]
HERE = Path(__file__).parent
# File inside a package, column, steps ahead.
SERIES = {
    "sunspots": ("statsmodels/datasets/sunspots/sunspots.csv", 1, 11),
    "AirPassengers": ("sktime/datasets/data/Airline/Airline.csv", 1, 12),
    "CO2, weekly": ("statsmodels/datasets/co2/co2.csv", 1, 52),
    "temperature, hourly": ("vega_datasets/_data/seattle-temps.csv", 1, 48),
    "Nile": ("statsmodels/datasets/nile/nile.csv", 1, 5),
    "lynx": ("sktime/datasets/data/Lynx/Lynx.csv", 1, 10),
    "temperature, daily": ("vega_datasets/_data/seattle-weather.csv", 2, 30),
}
ORIGINS, LONGEST = 40, 60


def origins(x: Array, cut: int, steps: int) -> list[int]:
    """Rows of the unseen part from which a rollout starts, with whole windows before and after them."""
    rows = range(cut, len(x) - steps + 1)
    fine = [i for i in rows if np.isfinite(x[max(0, i - LONGEST) : i + steps]).all()]
    return [fine[k] for k in np.unique(np.linspace(0, len(fine) - 1, min(ORIGINS, len(fine))).astype(int))]


def row(x: Array, steps: int) -> dict[str, Any]:
    """The errors of ours and of every baseline."""
    cut = round(0.75 * len(x))
    train, starts = x[:cut], origins(x, cut, steps)
    truth = np.stack([x[i : i + steps] for i in starts])
    mean, scale = np.nanmean(train), np.nanstd(train)

    def error(predicted: Array) -> float:
        return float(np.mean((predicted - truth) ** 2) / scale**2)

    began = time.process_time()
    model = LensForecaster().fit(train[:, None], dt=1.0)
    seconds, h = time.process_time() - began, model.history_
    windows = np.stack([x[i - h : i, None] for i in starts])
    ours = model.rollout(windows if h > 1 else windows[:, 0], steps=steps, level=0.9)
    inside = (truth >= ours.lower[:, 1:, 0]) & (truth <= ours.upper[:, 1:, 0])
    found: dict[str, Any] = {
        "lln": error(ours.array[:, 1:, 0]), "part": model.report_.part, "history": h, "cpu_seconds": seconds,
        "coverage_90": float(inside.mean()), "steps": steps, "rows": cut, "origins": len(starts),
        "persistence": error(np.repeat(x[np.asarray(starts) - 1][:, None], steps, axis=1)),
        "mean": error(np.full(truth.shape, mean)),
    }  # fmt: skip
    z = (train[np.isfinite(train)] - mean) / scale  # baselines take no gaps: these are closed up
    for name, (history, advance) in tuned(z[:, None], steps, ("AR", "NVAR", "kernel", "analog")).items():
        pasts = [((x[i - history : i] - mean) / scale)[:, None] for i in starts]
        found[name] = error(np.stack([roll(advance, past, steps)[:, 0] for past in pasts]) * scale + mean)
    return found


def main() -> None:
    """Run every series, store and print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=Path, default=HERE / "packages")
    parser.add_argument("--out", type=Path, default=HERE.parent / "results" / "accuracy-series.json")
    options = parser.parse_args()
    stored: dict[str, Any] = {"made": provenance("torch", "numpy", "scipy"), "rows": {}}
    for name, (file, column, steps) in SERIES.items():
        x = pd.read_csv(options.packages / file).iloc[:, column].to_numpy(dtype=np.float64)
        stored["rows"][name] = found = row(x, steps)
        simple = {key: found[key] for key in ("persistence", "mean", "AR", "NVAR", "kernel", "analog") if key in found}
        best = min(simple, key=simple.__getitem__)
        print(
            f"{name:20s} H{steps:<3d} lln {found['lln']:.4g} ({found['part']}, {found['cpu_seconds']:.1f} s)  "
            f"best simple {simple[best]:.4g} ({best})  90 % intervals cover {found['coverage_90']:.0%}",
            flush=True,
        )
        with whole_file(options.out) as path:
            Path(path).write_text(json.dumps(stored, indent=1))


if __name__ == "__main__":
    main()
