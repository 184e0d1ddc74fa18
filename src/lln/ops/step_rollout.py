"""Rollouts of a `StepProgram`: checks its input, takes the fused kernel where there is one, finds divergence."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lln.core.checks import SMALL, check_int, check_memory
from lln.core.errors import InputError
from lln.ops import step_torch
from lln.ops.cpu import step
from lln.ops.cpu.threads import checked_threads
from lln.ops.step_program import Array, StepProgram, Track


def track(
    program: StepProgram,
    window: Array,
    steps: int,
    inputs: Array | None = None,
    *,
    threads: int | None = None,
    device: torch.device | str = "cpu",
    backend: str = "auto",
) -> Track:
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
        The last state of each window and those after it, and where each start diverged or left the watched box.
    """
    steps, window = check_int("steps", steps, 0), np.ascontiguousarray(window, np.float64)
    if window.ndim != 3 or window.shape[1:] != (program.history, program.size):
        raise InputError(f"window must have shape (B, {program.history}, {program.size}), got {window.shape}")
    if program.inputs:
        shape, found = (window.shape[0], steps, program.inputs), None if inputs is None else np.shape(inputs)
        if found != shape:
            raise InputError(f"inputs must have shape {shape}, got {found}")
        inputs = np.ascontiguousarray(inputs, np.float64)
    else:
        inputs = None
    if 8 * window.shape[0] * steps * program.size >= SMALL:
        check_memory(f"a rollout of {steps:,} steps", (window.shape[0], steps, program.size))
    if (device == "cpu" or torch.device(device).type == "cpu") and backend in ("auto", "cpu") and step.serves(program):
        count = torch.get_num_threads() if threads is None else checked_threads(threads)
        return step.track(program, window, steps, inputs, count)
    with np.errstate(over="ignore", invalid="ignore"):
        states = step_torch.roll(program, window, steps, inputs, device=device, backend=backend)
        return marked(np.concatenate([window[:, -1:], states], axis=1), program.watch_low, program.watch_high)


def roll(
    program: StepProgram, window: Array, steps: int, inputs: Array | None = None, **options: Any
) -> tuple[Array, NDArray[np.int64]]:
    """As `track`: the states (B, steps, n) after the windows, and the index of the first that is not finite, or -1."""
    found = track(program, window, steps, inputs, **options)
    never = np.full(len(found.states), -1, np.int64)
    return found.states[:, 1:], never if found.marks is None else np.maximum(found.marks[0], 0) - 1


def marked(states: Array, low: Array | None, high: Array | None) -> Track:
    """States (B, steps + 1, n) with their marks; NaN from where they diverge, in place.

    Args:
        states: the start in front.
        low: (n,); a mark tells when a state is below; None to watch nothing.
        high: the same above.
    """
    lost = np.asarray(~np.isfinite(states).all(axis=-1))
    lost[:, 0] = False  # a start is where it is
    dead = np.logical_or.accumulate(lost, axis=1)
    outside = np.zeros_like(dead)
    if low is not None:
        outside |= (states < low).any(axis=-1)
    if high is not None:
        outside |= (states > high).any(axis=-1)
    states[dead] = np.nan
    steps = np.stack([dead, outside & ~dead])
    marks = np.where(steps.any(axis=2), steps.argmax(axis=2), -1)
    return Track(states, None if (marks < 0).all() else marks)
