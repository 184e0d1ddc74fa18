"""Data-parallel training through `torch.distributed`: every process takes its part of a batch, gradients are averaged.

Start the same program in several processes with torchrun:

    torchrun --nproc-per-node 2 fit.py

All processes draw the same batches, make the same updates and end with the same model.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta

import torch
from torch import Tensor, distributed

_TIMEOUT = timedelta(minutes=30)


def join(device: str = "cpu") -> bool:
    """Join the process group that torchrun describes in the environment; whether there is one of several processes.

    Args:
        device: "cuda" takes NCCL, everything else gloo.
    """
    if not distributed.is_available():
        return False
    if not distributed.is_initialized():
        if int(os.environ.get("WORLD_SIZE", "1")) < 2 or "RANK" not in os.environ:
            return False
        backend = "nccl" if device.startswith("cuda") else "gloo"
        if backend == "nccl":
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        distributed.init_process_group(backend, timeout=_TIMEOUT)
    return processes() > 1


def processes() -> int:
    """Number of processes that train together; 1 without a process group."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def rank() -> int:
    """Number of this process, from 0."""
    return distributed.get_rank() if processes() > 1 else 0


def part(tensor: Tensor | None, axis: int) -> Tensor | None:
    """This process's rows of a batch; all of them where there are fewer rows than processes."""
    count = processes()
    if tensor is None or count == 1 or tensor.shape[axis] < count:
        return tensor
    return tensor[(*[slice(None)] * axis, slice(rank(), None, count))].contiguous()


def average(tensors: Sequence[Tensor]) -> None:
    """Replace every tensor by its mean over all processes, in one message."""
    if processes() == 1 or not tensors:
        return
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    distributed.all_reduce(flat)
    flat /= processes()
    for tensor, piece in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
        tensor.copy_(piece.view_as(tensor))


def agreed(value: int) -> int:
    """The value of process 0, for choices that depend on the clock."""
    if processes() == 1:
        return value
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    shared = torch.tensor(value, device=device)
    distributed.broadcast(shared, 0)
    return int(shared)
