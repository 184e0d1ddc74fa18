"""A closed-form part: random Fourier features of the state, solved by ridge regression."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lln.step.parts import ClosedFormPart

COUNT, SPREAD, RIDGE = 200, 0.5, 1e-8


class FourierPart(ClosedFormPart):
    """``increment = weights [1, f, cos(frequencies f + phases)]``.

    Args:
        frequencies: (COUNT, F).
        phases: (COUNT,).
        weights: (n, 1 + F + COUNT).
    """

    frequencies: Tensor
    phases: Tensor
    weights: Tensor

    def __init__(self, frequencies: np.ndarray, phases: np.ndarray, weights: np.ndarray) -> None:
        super().__init__()
        for name, values in (("frequencies", frequencies), ("phases", phases), ("weights", weights)):
            self.register_buffer(name, torch.tensor(values, dtype=torch.float64))

    @classmethod
    def fit(cls, features: np.ndarray, increments: np.ndarray, weights: np.ndarray | None = None) -> "FourierPart":
        """Draw frequencies, solve for the weights."""
        rng = np.random.default_rng(0)
        frequencies = SPREAD * rng.standard_normal((COUNT, features.shape[1]))
        part = cls(frequencies, rng.uniform(0, 2 * np.pi, COUNT), np.zeros((1, 1)))
        columns = part.columns(torch.from_numpy(features)).numpy()
        root = 1.0 if weights is None else np.sqrt(weights)[:, None]
        left, values, right = np.linalg.svd(columns * root, full_matrices=False)
        filtered = values / (values**2 + RIDGE * values[0] ** 2)
        part.weights = torch.from_numpy((right.T @ (filtered[:, None] * (left.T @ (increments * root)))).T.copy())
        return part

    def columns(self, features: Tensor) -> Tensor:
        """(..., F) -> (..., 1 + F + COUNT)."""
        waves = torch.cos(features @ self.frequencies.mT + self.phases)
        return torch.cat([torch.ones_like(features[..., :1]), features, waves], dim=-1)

    def forward(self, features: Tensor) -> Tensor:
        """The standardised increments: (..., F) -> (..., n)."""
        return self.columns(features) @ self.weights.mT

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything that `from_arrays` needs."""
        return {name: getattr(self, name).cpu().numpy() for name in ("frequencies", "phases", "weights")}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any], features: int, size: int) -> "FourierPart":
        """Rebuild the part; arrays of a damaged file are refused."""
        count = len(arrays["phases"])
        shapes = {"frequencies": (count, features), "phases": (count,), "weights": (size, 1 + features + count)}
        for name, shape in shapes.items():
            if arrays[name].shape != shape:
                raise ValueError(f"{name} must have shape {shape}, got {arrays[name].shape}")
        return cls(**{name: arrays[name] for name in shapes})
