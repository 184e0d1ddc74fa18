"""Roll out the trained networks from APEBench's test starts, on any machine with torch: weights in, rollouts out."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from train import HERE, Stack, Units, rollout


def kept(path: Path) -> Iterator[tuple[dict[str, Any], dict[str, torch.Tensor]]]:
    """What `train.py` kept of each contender in one file: about it, and its stacked weights."""
    with np.load(path) as file:
        for name in sorted({key.split("/")[0] for key in file.files}):
            start = f"{name}/weights."
            weights = {
                key.removeprefix(start): torch.from_numpy(file[key]) for key in file.files if key.startswith(start)
            }
            yield json.loads(str(file[f"{name}/about"])), weights


def rolled(about: dict[str, Any], weights: dict[str, torch.Tensor], starts: torch.Tensor, steps: int) -> torch.Tensor:
    """(S, B, steps, *points, 1) from starts (B, *points, 1)."""
    stack = Stack(about["contender"], about["seeds"], "cpu", starts.ndim - 2)
    stack.parameters = weights
    return rollout(stack, starts, steps, Units(**about["units"]))


def main() -> None:
    """Write one file of rollouts a contender, channels first as APEBench has them, without the start."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=HERE / "data")
    parser.add_argument("--weights", type=Path, default=HERE / "weights")
    parser.add_argument("--out", type=Path, default=HERE / "rollouts")
    parser.add_argument("--steps", type=int, default=100, help="as many as the score looks at")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for path in sorted(options.weights.glob("*.npz")):
        for about, weights in kept(path):
            with np.load(options.data / f"{about['scenario']}.npz") as file:
                test = torch.from_numpy(file["test"])
            states = rolled(about, weights, test[:, 0].movedim(1, -1), options.steps).movedim(-1, 3)
            target = options.out / f"{about['scenario']}.{about['contender']}.{about['recipe']}.npz"
            np.savez(target, rollout=states.numpy(), about=json.dumps(about))
            print(f"{target}: {tuple(states.shape)}", flush=True)


if __name__ == "__main__":
    main()
