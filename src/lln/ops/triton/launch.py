"""Launches of Triton kernels without the work that Triton repeats at every call: binding and hashing the arguments."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

# (kernel, device, types, alignment, constants, warps) -> launcher, function and metadata of what Triton compiled
_compiled: dict[tuple[Any, ...], tuple[Any, Any, Any]] = {}
_MOST = 512  # entries; the cache is cleared beyond


def launch(
    kernel: Any,
    programs: tuple[int, int, int],
    tensors: tuple[Tensor, ...],
    sizes: tuple[int, ...],
    constants: tuple[Any, ...],
    *,
    warps: int,
) -> None:
    """Run `kernel` on its tensors, run-time sizes and compile-time constants, in the order of its parameters.

    Sizes must not be specialised on by the kernel (`do_not_specialize`) and must be below 2^31; tensors are specialised
    on, by their alignment.
    """
    device = tensors[0].device
    aligned = tuple([tensor.data_ptr() % 16 == 0 for tensor in tensors])
    key = (id(kernel), device, tensors[0].dtype, aligned, constants, warps)
    ready = _compiled.get(key)
    if ready is None:
        if len(_compiled) >= _MOST:
            _compiled.clear()
        found = kernel[programs](*tensors, *sizes, *constants, num_warps=warps)
        _compiled[key] = (found.run, found.function, found.packed_metadata)
        return
    run, function, metadata = ready
    stream = torch._C._cuda_getCurrentRawStream(device.index)
    run(*programs, stream, function, metadata, None, None, None, *tensors, *sizes, *constants)
