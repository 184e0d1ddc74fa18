"""Launches of Triton kernels without the work that Triton repeats at every call: binding and hashing the arguments."""

from __future__ import annotations

from typing import Any

from torch import Tensor

# (kernel, device, types, alignment, constants, warps) -> what Triton compiled for them
_compiled: dict[tuple[Any, ...], Any] = {}
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

    Sizes must not be specialised on by the kernel (`do_not_specialize`); tensors are, by their alignment.
    """
    first = tensors[0]
    aligned = tuple([tensor.data_ptr() % 16 == 0 for tensor in tensors])
    key = (id(kernel), first.device, first.dtype, aligned, constants, warps)
    ready = _compiled.get(key)
    if ready is not None:
        ready[programs](*tensors, *sizes, *constants)
        return
    if len(_compiled) >= _MOST:
        _compiled.clear()
    _compiled[key] = kernel[programs](*tensors, *sizes, *constants, num_warps=warps)
