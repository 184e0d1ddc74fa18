"""Whether the benchmark's networks, written again in torch, compute what its own compute: same weights, same output."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from contenders import Convolution, make

HERE = Path(__file__).parent


def difference(name: str, given: dict[str, np.ndarray]) -> float:
    """Largest difference of the outputs, over the largest output."""
    network = make(name, 0)
    layers = [module for module in network.modules() if isinstance(module, Convolution)]
    if name == "resnet":  # modules are listed as they were made: lifting, convolutions, projection
        assert len(layers) == 18
    with torch.no_grad():
        for index, layer in enumerate(layers):
            weight, bias = (given[f"{name}.{index:02}.{part}"] for part in ("weight", "bias"))
            layer.linear.weight.copy_(torch.from_numpy(np.moveaxis(weight, 1, -1).reshape(len(weight), -1)))
            layer.linear.bias.copy_(torch.from_numpy(bias.ravel()))
        out = network(torch.from_numpy(given["x"]).T.unsqueeze(0))[0, :, 0].numpy()
    truth = given[f"{name}.y"][0]
    return float(np.abs(out - truth).max() / np.abs(truth).max())


def main() -> None:
    """Leave with 1 if a network differs by more than float32 rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=HERE / "data")
    options = parser.parse_args()
    with np.load(options.data / "networks.npz") as file:
        given = {key: file[key] for key in file.files}
    found = {name: difference(name, given) for name in ("conv", "resnet")}
    for name, value in found.items():
        print(f"{name}: largest relative difference {value:.1e}")
    raise SystemExit(0 if max(found.values()) < 1e-5 else 1)


if __name__ == "__main__":
    main()
