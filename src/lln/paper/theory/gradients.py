"""How loss gradients travel through a deep stack before any training (Experiment 2).

For the state ``h_l`` behind repeated layer l, ``g_l = RMS(dLoss / dh_l)``; the reported curve is ``log10(g_l / g_D)``,
zero where the gradient at a layer is as large as at the last one. For a lens network ``h_l = y_l``, and the gradient is
that of the computation: it counts both ways in which ``y_l`` goes on, by its flight to ``y_{l+1}`` and by the lens it
meets at once.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lln.core.errors import InputError, check_int
from lln.models.base import StateNetwork

BATCH = 512
BATCHES = 4


def gradient_transport(
    model: StateNetwork, inputs: Tensor, targets: Tensor, *, batch: int = BATCH, batches: int = BATCHES
) -> NDArray[np.float64]:
    """log10(g_l / g_D) of every repeated layer of `model`, as it stands, (D,); minus infinity where it has no gradient.

    The batches are deterministic: the first `batch * batches` pairs in their order in time, cut in equal parts. Each
    batch has its own mean-squared-error loss; the square of a gradient is averaged over all entries of all batches.
    Inputs (pairs, n_in) and targets (pairs, n_out) are standardised; no parameter is touched.
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
    rms = torch.stack(squares).mean(dim=0).sqrt().numpy()
    with np.errstate(divide="ignore"):
        return np.asarray(np.log10(rms / rms[-1]))


def _squared_gradients(model: StateNetwork, x: Tensor, y: Tensor) -> Tensor:
    """Mean square of dLoss/dh_l over one batch, for l = 1 .. D."""
    with torch.enable_grad():
        hidden = [state[0] if isinstance(state, tuple) else state for state in model.states(x)[1:]]
        loss = nn.functional.mse_loss(model.readout(hidden[-1]), y)
        gradients = torch.autograd.grad(loss, hidden)
    # Squares of 1e-25 are below the smallest float32.
    return torch.stack([gradient.double().square().mean() for gradient in gradients]).cpu()
