"""The least-squares convolution alone: what a linear stencil in float64 scores, without any network.

Beside networks trained on increments it shows how much of a scenario is linear. Writes rollouts like `roll.py`.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import product
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
KERNELS = (3, 9)


def shifted(states: np.ndarray, kernel: int) -> np.ndarray:
    """Periodic patches of states (B, T, *points): (B, T, *points, kernel of all axes)."""
    axes = tuple(range(2, states.ndim))
    near = product(range(-(kernel // 2), kernel // 2 + 1), repeat=len(axes))
    return np.stack([np.roll(states, [-step for step in steps], axis=axes) for steps in near], axis=-1)


def main() -> None:
    """Fit and roll out one convolution for each kernel size and scenario."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=HERE / "data")
    parser.add_argument("--out", type=Path, default=HERE / "rollouts")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for path in sorted(options.data.glob("diff_*.npz")):
        with np.load(path) as file:
            train, test = (file[key][:, :, 0].astype(np.float64) for key in ("train", "test"))
        for kernel in KERNELS:
            began = time.perf_counter()
            rows = shifted(train[:, :-1], kernel)
            rows = rows.reshape(-1, rows.shape[-1])
            weight = np.linalg.lstsq(rows, (train[:, 1:] - train[:, :-1]).ravel(), rcond=None)[0]
            states, space = [test[:, :1]], tuple(range(2, test.ndim))
            with np.errstate(over="ignore", invalid="ignore"):
                for _ in range(100):
                    states.append(states[-1] + shifted(states[-1], kernel) @ weight)
            rollout = np.concatenate(states[1:], axis=1)[None, :, :, None]
            square = np.square(rollout[0, :, :100, 0] - test[:, 1:101]).sum(axis=space)
            by_step = np.sqrt(square / np.square(test[:, 1:101]).sum(axis=space)).mean(axis=0)
            score = float(np.exp(np.log(by_step).mean()))
            about = {
                "scenario": path.stem, "contender": f"convolution-{kernel}", "recipe": "least-squares", "seeds": [0],
                "parameters": len(weight), "seconds": time.perf_counter() - began, "device": "cpu",
                "scores_in_torch": [score],
            }  # fmt: skip
            target = options.out / f"{path.stem}.convolution-{kernel}.least-squares.npz"
            with np.errstate(over="ignore"):
                np.savez(target, rollout=rollout.astype(np.float32), about=json.dumps(about))
            print(f"{target}: {score:.6f}")


if __name__ == "__main__":
    main()
