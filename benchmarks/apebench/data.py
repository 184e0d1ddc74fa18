"""APEBench's own training and test trajectories as arrays, so that networks can be trained without JAX.

Run in the environment that has `apebench`: `python data.py --out data`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import apebench
import jax
import numpy as np

SCENARIOS = ("diff_burgers", "diff_adv", "diff_burgers_sc_2d")
# Of the plane, a grid and a number of starts that two cores can fit.
PLANE = {"num_spatial_dims": 2, "num_points": 40, "num_train_samples": 20, "num_test_samples": 10}


def scenario_of(name: str) -> apebench.BaseScenario:
    """A scenario of the benchmark with its defaults, or, with the ending "_2d", the same equation on a plane."""
    plane = name.endswith("_2d")
    return apebench.scenarios.scenario_dict[name.removesuffix("_2d")](**(PLANE if plane else {}))


def main() -> None:
    """Write one .npz file a scenario: train (50, 51, 1, 160), test (30, 201, 1, 160) on a line, float32."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "data")
    parser.add_argument("--scenarios", nargs="+", default=list(SCENARIOS))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.scenarios:
        scenario = scenario_of(name)
        train, test = np.asarray(scenario.get_train_data()), np.asarray(scenario.get_test_data())
        path = options.out / f"{name}.npz"
        np.savez(path, train=train, test=test, batch=scenario.batch_size, updates=scenario.num_training_steps)
        print(f"{path}: train {train.shape}, test {test.shape}, {train.dtype}")
    np.savez(options.out / "networks", **published_networks())


def published_networks() -> dict[str, np.ndarray]:
    """The benchmark's own networks as they are initialised, with an input and their outputs: see `check.py`."""
    scenario = scenario_of("diff_burgers")
    x = np.random.default_rng(0).normal(size=(1, 40)).astype(np.float32)
    conv = scenario.get_network("Conv;34;10;relu", jax.random.PRNGKey(0))
    res = scenario.get_network("Res;26;8;relu", jax.random.PRNGKey(0))
    blocks = [layer for block in res.blocks for layer in (block.conv_1, block.conv_2)]
    layers = {"conv": conv.layers, "resnet": [res.lifting, *blocks, res.projection]}
    found = {"x": x, "conv.y": np.asarray(conv(x)), "resnet.y": np.asarray(res(x))}
    for name, parts in layers.items():
        for index, layer in enumerate(parts):
            found[f"{name}.{index:02}.weight"] = np.asarray(layer.weight)
            found[f"{name}.{index:02}.bias"] = np.asarray(layer.bias)
    return found


if __name__ == "__main__":
    main()
