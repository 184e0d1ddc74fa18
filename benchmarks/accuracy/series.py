"""`python -m benchmarks.accuracy.series`: measured series through `LensForecaster()`, beside tuned baselines.

The series ship inside the packages statsmodels, sktime and vega_datasets, which `make bench-accuracy` unpacks into
benchmarks/accuracy/packages. The last quarter of each is unseen; errors are mean squares over rolling origins there,
divided by the variance of the rows that train. Rows are stored as they come; what is stored is not run again.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.accuracy.baselines import roll, tuned
from lln import LensForecaster
from lln.core.provenance import provenance
from lln.core.safe_files import whole_file

Array = NDArray[np.float64]
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Measured:
    """One measured series.

    Attributes:
        file: inside a package.
        column: of the table.
        steps: of the forecasts that are scored.
        season: in steps; 0 for none.
        logarithm: whether the logarithm of the values is forecast.
        rows: the first ones of the file that are used; None for all.
    """

    file: str
    column: int
    steps: int
    season: int = 0
    logarithm: bool = False
    rows: int | None = None

    def values(self, packages: Path) -> Array:
        """The series, NaN where it has gaps."""
        x = pd.read_csv(packages / self.file).iloc[: self.rows, self.column].to_numpy(dtype=np.float64)
        return np.log(x) if self.logarithm else x


_MACRO = "statsmodels/datasets/macrodata/macrodata.csv"
SERIES = {
    "sunspots": Measured("statsmodels/datasets/sunspots/sunspots.csv", 1, 11, 11),
    "AirPassengers": Measured("sktime/datasets/data/Airline/Airline.csv", 1, 12, 12),
    "CO2, weekly": Measured("statsmodels/datasets/co2/co2.csv", 1, 52, 52),
    "temperature, hourly": Measured("vega_datasets/_data/seattle-temps.csv", 1, 48, 24),
    "Nile": Measured("statsmodels/datasets/nile/nile.csv", 1, 5),
    "lynx": Measured("sktime/datasets/data/Lynx/Lynx.csv", 1, 10, 10),
    "temperature, daily": Measured("vega_datasets/_data/seattle-weather.csv", 2, 30, 365),
    "ECG": Measured("sktime/datasets/data/mitdb/mitdb.csv", 0, 36, rows=3000),
    "GDP, quarterly": Measured(_MACRO, 2, 8, 4),
    "consumer prices, quarterly": Measured(_MACRO, 7, 8, 4),
    "treasury bills, quarterly": Measured(_MACRO, 9, 8, 4),
    "unemployment, quarterly": Measured(_MACRO, 10, 8, 4),
    "log share price, monthly": Measured("vega_datasets/_data/stocks.csv", 2, 12, 0, logarithm=True, rows=123),
}
ORIGINS, LONGEST = 40, 60
BASELINES = ("AR", "NVAR", "kernel", "analog")
SIMPLE = ("persistence", "mean", "drift", "season", *BASELINES)


def origins(x: Array, cut: int, steps: int, longest: int = LONGEST) -> list[int]:
    """Rows of the unseen part from which a rollout starts, with whole windows before and after them."""
    rows = range(cut, len(x) - steps + 1)
    fine = [i for i in rows if np.isfinite(x[max(0, i - longest) : i + steps]).all()]
    return [fine[k] for k in np.unique(np.linspace(0, len(fine) - 1, min(ORIGINS, len(fine))).astype(int))]


def row(x: Array, steps: int, season: int = 0, baselines: bool = True) -> dict[str, Any]:
    """The errors of ours and of every baseline."""
    cut = round(0.75 * len(x))
    train = x[:cut]
    mean, scale = np.nanmean(train), np.nanstd(train)
    began = time.process_time()
    model = LensForecaster().fit(train[:, None], dt=1.0)
    seconds, h = time.process_time() - began, model.history_
    starts = origins(x, cut, steps, max(LONGEST, h))
    truth = np.stack([x[i : i + steps] for i in starts])
    ahead = np.arange(1, steps + 1)

    def error(predicted: Array) -> float:
        return float(np.mean((predicted - truth) ** 2) / scale**2)

    windows = np.stack([x[i - h : i, None] for i in starts])
    ours = model.rollout(windows if h > 1 else windows[:, 0], steps=steps, level=0.9)
    inside = (truth >= ours.lower[:, 1:, 0]) & (truth <= ours.upper[:, 1:, 0])
    last = x[np.asarray(starts) - 1][:, None]
    found: dict[str, Any] = {
        "lln": error(ours.array[:, 1:, 0]), "part": model.report_.part, "history": h, "cpu_seconds": seconds,
        "noisy": model.report_.noisy, "coverage_90": float(inside.mean()), "steps": steps, "rows": cut,
        "origins": len(starts), "persistence": error(np.repeat(last, steps, axis=1)),
        "mean": error(np.full(truth.shape, mean)), "drift": error(last + ahead * np.nanmean(np.diff(train))),
    }  # fmt: skip
    if season and min(starts) >= season:
        found["season"] = error(np.stack([x[i - season : i][(ahead - 1) % season] for i in starts]))
    z = (train[np.isfinite(train)] - mean) / scale  # baselines take no gaps: these are closed up
    for name, (history, advance) in tuned(z[:, None], steps, BASELINES, noisy=True).items() if baselines else ():
        pasts = (np.stack([x[i - history : i, None] for i in starts]) - mean) / scale
        found[name] = error(roll(advance, pasts, steps)[..., 0] * scale + mean)
    return found


def main() -> None:
    """Run every series, store and print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=Path, default=HERE / "packages")
    parser.add_argument("--out", type=Path, default=HERE.parent / "results" / "accuracy-series.json")
    parser.add_argument("--only", default="", help="series whose names contain this")
    parser.add_argument("--again", action="store_true", help="run what is stored, too")
    options = parser.parse_args()
    stored: dict[str, Any] = {"made": provenance("torch", "numpy", "scipy"), "rows": {}}
    if options.out.exists() and not options.again:
        stored = json.loads(options.out.read_text())
    for name, one in SERIES.items():
        if options.only in name and name not in stored["rows"]:
            stored["rows"][name] = row(one.values(options.packages), one.steps, one.season)
            with whole_file(options.out) as path:
                Path(path).write_text(json.dumps(stored, indent=1))
        if name in stored["rows"]:
            print(f"{name:28s}", described(stored["rows"][name]), flush=True)


def described(found: dict[str, Any]) -> str:
    """One row in words."""
    best = min((name for name in SIMPLE if name in found), key=found.__getitem__)
    return (
        f"H{found['steps']:<3d} lln {found['lln']:.4g} ({found['part']}, {found['cpu_seconds']:.1f} s)  best simple "
        f"{found[best]:.4g} ({best})  90 % intervals cover {found['coverage_90']:.0%}"
    )


if __name__ == "__main__":
    main()
