"""Judge rollouts by APEBench's own `perform_tests_on_rollout` and store scores beside the published ones.

Run in the environment that has `apebench`. A score is the geometric mean, over steps 1 to 100, of the mean nRMSE of 30
test starts; of several seeds the median counts.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from data import scenario_of

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results"
STEPS = 100
# Medians over 50 seeds of the benchmark's own study.
PUBLISHED = {"diff_burgers": {"Res": 0.0128, "Conv": 0.0265, "Dil": 0.0571, "UNet": 0.0649, "FNO": 0.0698}}


def judged(scenario: str, rollout: np.ndarray) -> np.ndarray:
    """Mean nRMSE by step, (S, steps), by the benchmark's own function."""
    tests = scenario_of(scenario)
    truth = tests.get_test_data()[:, 1 : rollout.shape[2] + 1]
    return np.stack([np.asarray(tests.perform_tests_on_rollout(one, truth)["mean_nRMSE"]).ravel() for one in rollout])


def row(path: Path) -> dict[str, Any]:
    """One contender's scores and what they were made with."""
    with np.load(path) as file:
        about, rollout = json.loads(str(file["about"])), file["rollout"]
    by_step = judged(about["scenario"], rollout)
    with np.errstate(all="ignore"):
        scores = np.exp(np.log(by_step[:, :STEPS]).mean(axis=1))
        drift = float(np.max(np.abs(scores / np.array(about.pop("scores_in_torch")) - 1)))
    return {
        **about,
        "scores": [plain(value) for value in scores],
        "median": plain(np.median(scores)),
        "error_by_step": [plain(value) for value in np.median(by_step, axis=0)],
        "largest_relative_difference_to_training_machine": plain(drift),
    }


def merged(path: Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, and those stored at `path` of contenders that have no rollouts here."""
    stored = json.loads(path.read_text())["rows"] if path.is_file() else []
    known = {(found["contender"], found["recipe"]) for found in rows}
    return rows + [found for found in stored if (found["contender"], found["recipe"]) not in known]


def plain(value: float) -> float | None:
    """Four digits; None for a rollout that diverged."""
    return float(f"{value:.3e}") if np.isfinite(value) else None


def main() -> None:
    """Write one file of results a scenario."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=Path, default=HERE / "rollouts")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows = [row(path) for path in sorted(options.rollouts.glob("*.npz"))]
    for scenario in sorted({found["scenario"] for found in rows}):
        path = options.out / f"apebench-{scenario.replace('_', '-')}.json"
        judged_now = [found for found in rows if found["scenario"] == scenario]
        mine = sorted(merged(path, judged_now), key=lambda found: found["median"] or np.inf)
        content = {
            "format": 1,
            "scenario": scenario,
            "score": f"geometric mean over steps 1 to {STEPS} of the mean nRMSE of all test starts",
            "published": PUBLISHED.get(scenario, {}),
            "scored": {
                "apebench": version("apebench"),
                "date": time.strftime("%Y-%m-%d"),
                "python": platform.python_version(),
            },
            "rows": mine,
        }
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(content, indent=1) + "\n")
        partial.replace(path)
        for found in mine:
            who = f"{found['contender']} ({found['recipe']}, {found['parameters']} parameters)"
            print(f"{scenario}: {who}: median of {len(found['scores'])} seeds {found['median']}")
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
