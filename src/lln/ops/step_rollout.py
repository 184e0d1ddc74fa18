"""Rollouts of a `StepProgram`: checks its input, takes the fused kernel where there is one, finds divergence."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from lln.core.checks import SMALL, check_int, check_memory
from lln.core.errors import InputError
from lln.ops import step_torch
from lln.ops.cpu import step
from lln.ops.cpu.threads import checked_threads
from lln.ops.step_program import Array, StepProgram


def roll(
    program: StepProgram,
    window: Array,
    steps: int,
    inputs: Array | None = None,
    *,
    threads: int | None = None,
    device: torch.device | str = "cpu",
    backend: str = "auto",
) -> tuple[Array, NDArray[np.int64]]:
    """Roll a program out from every window.

    Args:
        program: the step.
        window: (B, H, n), oldest state first.
        steps: number of steps.
        inputs: (B, steps, m), the first for the step that leaves the window; None if m = 0.
        threads: at most this many threads on the CPU; None takes torch's number.
        device: where to compute; a CUDA device replays a CUDA graph.
        backend: implementation of the lens transport where no fused rollout serves.

    Returns:
        The states (B, steps, n), NaN from the first state of a start that is not finite; and (B,), the index of that
        state, or -1 where all are finite.
    """
    steps, window = check_int("steps", steps, 0), np.ascontiguousarray(window, np.float64)
    if window.ndim != 3 or window.shape[1:] != (program.history, program.size):
        raise InputError(f"window must have shape (B, {program.history}, {program.size}), got {window.shape}")
    shape = (window.shape[0], steps, program.inputs)
    if program.inputs:
        found = None if inputs is None else np.shape(inputs)
        if found != shape:
            raise InputError(f"inputs must have shape {shape}, got {found}")
        inputs = np.ascontiguousarray(inputs, np.float64)
    else:
        inputs = None
    if 8 * window.shape[0] * steps * program.size >= SMALL:
        check_memory(f"a rollout of {steps:,} steps", (window.shape[0], steps, program.size))
    if (device == "cpu" or torch.device(device).type == "cpu") and backend in ("auto", "cpu") and step.serves(program):
        count = torch.get_num_threads() if threads is None else checked_threads(threads)
        return step.roll(program, window, steps, inputs, count)
    with np.errstate(over="ignore", invalid="ignore"):
        states = step_torch.roll(program, window, steps, inputs, device=device, backend=backend)
    return states, divergence(states)


def divergence(states: Array) -> NDArray[np.int64]:
    """Index of the first state (B, steps, n) of every start that is not finite, or -1; NaN from there on, in place."""
    first = np.full(states.shape[0], -1, np.int64)
    where, when = np.nonzero(~np.isfinite(states).all(axis=-1))
    first[where[::-1]] = when[::-1]  # the first of each start is written last
    for start in np.flatnonzero(first >= 0):
        states[start, first[start] :] = np.nan
    return first
