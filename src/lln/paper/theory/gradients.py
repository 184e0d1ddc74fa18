"""How loss gradients travel through a deep stack before any training (Experiment 2).

For the state h_l behind repeated layer l, ``g_l = RMS(dLoss / dh_l)``; the reported curve is ``log10(g_l / g_D)``, zero
where a layer hears the loss exactly as loudly as the last one. For a lens network h_l = y_l, and the gradient is that
of the computation: it counts both ways in which y_l goes on, by its flight to y_{l+1} and by the lens it meets at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lln.core.checks import check_int
from lln.core.errors import InputError

BATCH = 512
BATCHES = 4


class Stack(Protocol):
    """A network that shows its states: the embedding's first, then the one behind each repeated layer.

    A state is a tensor, or a tuple of which the first is the one that is read out (the positions, for a lens network).
    """

    readout: nn.Linear

    def states(self, x: Tensor) -> Sequence[Any]:
        """The D + 1 states of a batch."""


@dataclass(frozen=True, eq=False)
class GradientTransport:
    """Gradient sizes behind the repeated layers 1 to D.

    Attributes:
        rms: g_1 .. g_D, (D,), in float64.
    """

    rms: NDArray[np.float64]

    @property
    def log_ratios(self) -> NDArray[np.float64]:
        """log10(g_l / g_D) for l = 1 .. D; the last is zero, minus infinity is a layer that hears nothing at all."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log10(self.rms / self.rms[-1]))

    @property
    def first_to_last(self) -> float:
        """log10(g_1 / g_D), the number in the paper's table."""
        return float(self.log_ratios[0])


def gradient_transport(
    model: Stack, inputs: Tensor, targets: Tensor, *, batch: int = BATCH, batches: int = BATCHES
) -> GradientTransport:
    """Measure g_l for every repeated layer of `model`, as it stands.

    The batches are deterministic: the first `batch * batches` pairs in their order in time, cut in equal parts. Each
    batch has its own mean-squared-error loss; the square of a gradient is averaged over all entries of all batches.

    Args:
        model: the network; its parameters are not touched.
        inputs: standardised states, (pairs, n_in).
        targets: standardised next states, (pairs, n_out).
        batch: pairs in a batch.
        batches: number of batches.
    """
    needed = check_int("batch", batch, 1) * check_int("batches", batches, 1)
    if len(inputs) < needed or len(inputs) != len(targets):
        raise InputError(
            f"gradient transport needs {needed} pairs ({batches} batches of {batch}), "
            f"got {len(inputs)} inputs and {len(targets)} targets"
        )
    squares = [
        _squared_gradients(model, x, y)
        for x, y in zip(torch.split(inputs[:needed], batch), torch.split(targets[:needed], batch), strict=True)
    ]
    return GradientTransport(torch.stack(squares).mean(dim=0).sqrt().numpy())


def _squared_gradients(model: Stack, x: Tensor, y: Tensor) -> Tensor:
    """Mean square of dLoss/dh_l over one batch, for l = 1 .. D."""
    with torch.enable_grad():
        hidden = [state[0] if isinstance(state, tuple) else state for state in model.states(x)[1:]]
        loss = nn.functional.mse_loss(model.readout(hidden[-1]), y)
        gradients = torch.autograd.grad(loss, hidden)
    # Squares of 1e-25 are below the smallest float32.
    return torch.stack([gradient.double().square().mean() for gradient in gradients]).cpu()
