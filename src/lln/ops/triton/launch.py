"""Launches of Triton kernels and their memory, without the work that Triton and torch repeat at every call."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Any

import torch
from torch import Tensor

# What compiled code of torch allocates by: no dispatch, a third of the cost. If a release drops it, `empty` serves.
_empty_strided: Callable[..., Tensor] | None = getattr(torch._C._dynamo.guards, "_empty_strided_cuda", None)
_ALIGNED = 16  # bytes; Triton compiles kernels for tensors that start at a multiple of it


class Room:
    """Contiguous memory of one shape on a GPU, whose content is not set."""

    __slots__ = ("_device", "_dtype", "_shape", "_strides")

    def __init__(self, shape: tuple[int, ...], device: torch.device, dtype: torch.dtype) -> None:
        self._shape, self._device, self._dtype = tuple(shape), device, dtype
        self._strides = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))

    def __call__(self) -> Tensor:
        """A new tensor."""
        if _empty_strided is not None and torch._C._cuda_getDevice() == self._device.index:
            return _empty_strided(self._shape, self._strides, self._dtype)
        return torch.empty(self._shape, device=self._device, dtype=self._dtype)


class Launch:
    """A kernel with all its arguments but the tensors, which come first among its parameters.

    The tensors of one launch always have the same types and device; Triton specialises on their alignment. Sizes must
    not be specialised on by the kernel (`do_not_specialize`) and must be below 2^31.

    Args:
        kernel: what `triton.jit` returned.
        programs: how many programs run, in three dimensions.
        sizes: the integers that follow the tensors.
        constants: the compile-time arguments that follow the sizes.
        warps: warps of one program.
    """

    __slots__ = ("_compiled", "_kernel", "_programs", "_rest", "_warps")

    def __init__(
        self,
        kernel: Any,
        programs: tuple[int, int, int],
        sizes: tuple[int, ...],
        constants: tuple[Any, ...],
        *,
        warps: int,
    ) -> None:
        self._kernel, self._programs, self._rest, self._warps = kernel, programs, (*sizes, *constants), warps
        # The launcher, function and metadata of what Triton compiled for aligned tensors.
        self._compiled: tuple[Any, Any, Any] | None = None

    def __call__(self, *tensors: Tensor) -> None:
        """Run the kernel on the current stream of the tensors' device."""
        pointers = [tensor.data_ptr() for tensor in tensors]
        aligned = not reduce(or_, pointers) % _ALIGNED
        if self._compiled is None or not aligned:
            found = self._kernel[self._programs](*tensors, *self._rest, num_warps=self._warps)
            if aligned:
                self._compiled = (found.run, found.function, found.packed_metadata)
            return
        run, function, metadata = self._compiled
        stream = torch._C._cuda_getCurrentRawStream(tensors[0].device.index)
        # The driver looks up tensors, but not integers.
        run(*self._programs, stream, function, metadata, None, None, None, *pointers, *self._rest)
