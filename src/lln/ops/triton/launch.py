"""Launches of Triton kernels without the work that Triton repeats at every call: binding and hashing the arguments."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


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

    __slots__ = ("_compiled", "_constants", "_kernel", "_programs", "_sizes", "_warps")

    def __init__(
        self,
        kernel: Any,
        programs: tuple[int, int, int],
        sizes: tuple[int, ...],
        constants: tuple[Any, ...],
        *,
        warps: int,
    ) -> None:
        self._kernel, self._programs, self._warps = kernel, programs, warps
        self._sizes, self._constants = sizes, constants
        # Which tensors are aligned -> launcher, function and metadata of what Triton compiled for them.
        self._compiled: dict[tuple[bool, ...], tuple[Any, Any, Any]] = {}

    def __call__(self, *tensors: Tensor) -> None:
        """Run the kernel on the current stream of the tensors' device."""
        pointers = [tensor.data_ptr() for tensor in tensors]
        aligned = tuple([pointer % 16 == 0 for pointer in pointers])
        compiled = self._compiled.get(aligned)
        if compiled is None:
            arguments = (*tensors, *self._sizes, *self._constants)
            found = self._kernel[self._programs](*arguments, num_warps=self._warps)
            self._compiled[aligned] = (found.run, found.function, found.packed_metadata)
            return
        run, function, metadata = compiled
        stream = torch._C._cuda_getCurrentRawStream(tensors[0].device.index)
        # As plain integers the pointers are not looked up in the driver again.
        run(
            *self._programs, stream, function, metadata, None, None, None, *pointers, *self._sizes, *self._constants
        )  # fmt: skip
