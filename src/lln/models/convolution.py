"""Convolutions on grids, channels last, with a boundary condition for each side of each axis.

A field is (..., *points, channels). A convolution is a linear map of patches: at every point the values at the
kernel's offsets, kernel index first, channel last. Its weight is (out, kernel points * channels), so that an ordinary
`nn.Linear` holds it.

What lies beyond a side: "periodic" goes round; "dirichlet" is the odd reflection about the boundary point, whose value
is prescribed; "neumann" the even one, so that the slope there is zero; "replicate" copies the boundary point.

The offsets of a kernel are physical distances. On a grid finer than the one that the kernel was learned on by `ratio`,
neighbours in the kernel are `ratio` points apart: whole ratios dilate, others interpolate by cubics through four
points, whose error falls with the fourth power of the spacing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from lln.core.errors import InputError, check_int, choice, positive

BOUNDARIES = ("periodic", "dirichlet", "neumann", "replicate")
Side = str
Sides = tuple[tuple[Side, Side], ...]
# A call on an array takes as long as so many of its numbers, of a batch of so many fields.
_CALL, _BATCH = 5000, 16
_FEW = 2  # channels that go out
_WIDE = 64  # points of a kernel as wide as the grid, from which Fourier transforms take less time
_WHOLE = 1e-9  # a ratio this near to a whole number is one


def sides(boundary: str | Sequence[str | Sequence[str]], dimensions: int) -> Sides:
    """A boundary condition for the low and the high side of each axis.

    >>> sides(["periodic", ("dirichlet", "neumann")], 2)
    (('periodic', 'periodic'), ('dirichlet', 'neumann'))
    """
    axes = [boundary] * dimensions if isinstance(boundary, str) else list(boundary)
    if len(axes) != dimensions:
        raise InputError(f"boundary must name one condition for each of {dimensions} axes, got {len(axes)}")
    pairs = []
    for axis, given in enumerate(axes):
        pair = (given, given) if isinstance(given, str) else tuple(given)
        if len(pair) != 2:
            raise InputError(f"boundary of axis {axis} must be one condition or (low, high), got {given!r}")
        low, high = (choice(f"boundary of axis {axis}", side, BOUNDARIES) for side in pair)
        if (low == "periodic") != (high == "periodic"):
            raise InputError(f"boundary of axis {axis} must be periodic on both sides or on neither, got {pair}")
        pairs.append((low, high))
    return tuple(pairs)


def kernel_shape(kernel: int | Sequence[int], dimensions: int) -> tuple[int, ...]:
    """Points of the kernel along each axis."""
    shape = [kernel] * dimensions if isinstance(kernel, int) else list(kernel)
    if len(shape) != dimensions:
        raise InputError(f"kernel must have one size for each of {dimensions} axes, got {len(shape)}")
    return tuple(check_int(f"kernel of axis {axis}", size, 1) for axis, size in enumerate(shape))


def convolve(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    kernel: tuple[int, ...],
    boundary: Sides,
    ratio: Sequence[float] | None = None,
) -> Tensor:
    """(..., *points, channels) -> (..., *points, out), with the weight (out, kernel points * channels) and bias (out,).

    `kernel` has the points of the kernel along each axis, `ratio` the points that one of its steps spans; None is 1.
    """
    # Matrix products run best on a GPU, and there many networks at once; on a CPU oneDNN's convolutions, which know
    # float32 alone and are made for many channels.
    dilation = whole_steps(ratio, len(kernel))
    ring = all(pair == ("periodic", "periodic") for pair in boundary) and dilation == [1] * len(kernel)
    wide = kernel == tuple(x.shape[-len(kernel) - 1 : -1]) and math.prod(kernel) >= _WIDE
    if ring and wide and x.dtype == torch.float64:
        return _by_waves(x, weight, bias, kernel)
    if dilation is not None and x.device.type == "cpu" and len(kernel) <= 3:
        convolved = _products if x.dtype == torch.float64 or len(weight) <= _FEW else _native
        return convolved(x, weight, bias, kernel, boundary, dilation)
    return functional.linear(_patches(x, kernel, boundary, ratio), weight, bias)


def convolve_members(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    kernel: tuple[int, ...],
    boundary: Sides,
    ratio: Sequence[float] | None = None,
) -> Tensor:
    """One convolution for each of S members: (S, ..., *points, channels) -> (S, ..., *points, out).

    The weight is (S, out, kernel points * channels), the bias (S, out). A first dimension of 1 of `x` is shared by all
    members. The other arguments are those of `convolve`.
    """
    members, out, _ = weight.shape
    if x.shape[0] == 1:  # all see the same: one convolution with all outputs
        joint = convolve(x[0], weight.flatten(0, 1), bias.flatten(), kernel, boundary, ratio)
        shared: Tensor = joint.unflatten(-1, (members, out)).movedim(-2, 0).contiguous()
        return shared
    if x.device.type == "cpu":
        each = zip(x, weight, bias, strict=True)
        return torch.stack([convolve(a, w, b, kernel, boundary, ratio) for a, w, b in each])
    found = _patches(x, kernel, boundary, ratio)
    rows = torch.baddbmm(bias.unsqueeze(1), found.reshape(members, -1, found.shape[-1]), weight.mT)
    fields: Tensor = rows.reshape(*found.shape[:-1], out)
    return fields


def patches(x: Tensor, kernel: tuple[int, ...], boundary: Sides) -> Tensor:
    """Every point's neighbourhood: (..., *points, channels) -> (..., *points, kernel points * channels)."""
    return _whole_patches(x, kernel, boundary, [1] * len(kernel))


def pad(x: Tensor, axis: int, before: int, after: int, boundary: tuple[Side, Side]) -> Tensor:
    """The field with `before` and `after` more points along `axis`, which counts from the end."""
    size = x.shape[axis]
    if boundary[0] == "periodic":
        if max(before, after) > size:
            index = torch.arange(-before, size + after, device=x.device) % size
            return x.index_select(axis, index)
        return torch.cat((x.narrow(axis, size - before, before), x, x.narrow(axis, 0, after)), dim=axis)
    low = _beyond(x, axis, before, boundary[0])
    high = _beyond(x.flip(axis), axis, after, boundary[1]).flip(axis) if after else x.narrow(axis, 0, 0)
    return torch.cat((low, x, high), dim=axis)


def _beyond(x: Tensor, axis: int, count: int, side: Side) -> Tensor:
    """The `count` points below the first one, farthest first."""
    edge = x.narrow(axis, 0, 1)
    if side == "replicate":
        return edge.expand([count if a == x.ndim + axis else -1 for a in range(x.ndim)])
    if count > x.shape[axis] - 1:
        raise InputError(
            f"a kernel reaches {count} points beyond a {side} side, but the grid has {x.shape[axis]} points along that "
            "axis; take a smaller kernel or a finer grid"
        )
    mirror = x.narrow(axis, 1, count).flip(axis)
    return 2.0 * edge - mirror if side == "dirichlet" else mirror


def _reach(size: int) -> tuple[int, int]:
    """How many steps a kernel of so many points looks back and ahead."""
    return (size - 1) // 2, size // 2


def padded(x: Tensor, kernel: tuple[int, ...], boundary: Sides, dilation: Sequence[int] | None = None) -> Tensor:
    """The field, extended on all sides as far as the kernel reaches."""
    for place, (size, pair, step) in enumerate(zip(kernel, boundary, dilation or [1] * len(kernel), strict=True)):
        before, after = (reach * step for reach in _reach(size))
        x = pad(x, place - len(kernel) - 1, before, after, pair) if size > 1 else x
    return x


def whole_steps(ratio: Sequence[float] | None, rank: int) -> list[int] | None:
    """Whole steps of the kernel along each axis; None where a step is not a whole number of points."""
    if ratio is None:
        return [1] * rank
    steps = [positive("ratio", r) for r in ratio]
    whole_steps = [round(r) for r in steps]
    exact = all(d >= 1 and abs(r - d) <= _WHOLE * r for r, d in zip(steps, whole_steps, strict=True))
    return whole_steps if exact else None


def _patches(x: Tensor, kernel: tuple[int, ...], boundary: Sides, ratio: Sequence[float] | None) -> Tensor:
    dilation = whole_steps(ratio, len(kernel))
    if dilation is None:
        return _sampled_patches(x, kernel, boundary, ratio or ())
    return _whole_patches(x, kernel, boundary, dilation)


def _whole_patches(x: Tensor, kernel: tuple[int, ...], boundary: Sides, dilation: Sequence[int]) -> Tensor:
    rank = len(kernel)
    x = padded(x, kernel, boundary, dilation)
    lead = x.ndim - rank - 1
    for place, (size, step) in enumerate(zip(kernel, dilation, strict=True)):
        x = x.unfold(lead + place, (size - 1) * step + 1, 1)[..., ::step]
    return x.movedim(lead + rank, -1).flatten(lead + rank)


def _native(
    x: Tensor, weight: Tensor, bias: Tensor | None, kernel: tuple[int, ...], boundary: Sides, dilation: Sequence[int]
) -> Tensor:
    rank, (lead, points) = len(kernel), _split(x, len(kernel))
    wide = padded(x, kernel, boundary, dilation)
    rows = wide.reshape(-1, *wide.shape[-rank - 1 :]).movedim(-1, 1)
    filters = weight.unflatten(1, (*kernel, -1)).movedim(-1, 1)
    if rank == 1:  # channels-last memory is known to images, not to lines
        out = functional.conv2d(rows.unsqueeze(2), filters.unsqueeze(2), bias, dilation=(1, dilation[0])).squeeze(2)
    elif rank == 2:
        out = functional.conv2d(rows, filters, bias, dilation=tuple(dilation))
    else:
        out = functional.conv3d(rows, filters, bias, dilation=tuple(dilation))
    return out.movedim(1, -1).reshape(*lead, *points, len(weight))


def _products(
    x: Tensor, weight: Tensor, bias: Tensor | None, kernel: tuple[int, ...], boundary: Sides, dilation: Sequence[int]
) -> Tensor:
    """The convolution as one matrix product between two cheap passes over memory.

    Along the last axes neighbours are gathered before the product; along the first axes what the product gives to each
    neighbour is shifted and summed up after it. Gathering multiplies the channels that come in, shifting those that go
    out. Boundary conditions are linear, so that either can be padded: what has fewer channels is.
    """
    rank, (lead, points), (channels, out) = len(kernel), _split(x, len(kernel)), (x.shape[-1], len(weight))
    call = _CALL / (_BATCH * math.prod(points))  # not the true batch: the same field is always rounded alike
    first = min(range(rank + 1), key=lambda k: channels * math.prod(kernel[k:]) + (out + call) * math.prod(kernel[:k]))
    gathered, shifted = (*[1] * first, *kernel[first:]), (*kernel[:first], *[1] * (rank - first))
    late = channels > out * math.prod(shifted)
    view = padded(x, gathered if late else kernel, boundary, dilation)
    for place in range(first, rank):
        view = view.unfold(len(lead) + place, (kernel[place] - 1) * dilation[place] + 1, 1)[..., :: dilation[place]]
    rows = view.movedim(len(lead) + rank, -1).flatten(len(lead) + rank)
    if first == 0:
        return functional.linear(rows, weight, bias)
    # Channels that go out come first, so that the sums run along memory.
    filters = weight.unflatten(1, (math.prod(shifted), -1)).transpose(0, 1).flatten(0, 1)
    parts = (filters @ rows.flatten(0, -2).T).reshape(-1, out, *rows.shape[:-1], 1)
    parts = (padded(parts, shifted, boundary, dilation) if late else parts)[..., 0]
    total = torch.zeros((), dtype=x.dtype) if bias is None else bias.view(-1, *[1] * (len(lead) + rank))
    for offsets, part in zip(itertools.product(*map(range, kernel[:first])), parts.unbind(), strict=True):
        for place, at in enumerate(offsets):
            part = part.narrow(1 + len(lead) + place, at * dilation[place], points[place])
        total = total.add_(part) if any(offsets) else total + part
    return total.movedim(0, -1)


def _by_waves(x: Tensor, weight: Tensor, bias: Tensor | None, kernel: tuple[int, ...]) -> Tensor:
    """The convolution around a periodic grid that is as wide as the kernel: a product for each wave."""
    axes = tuple(range(-len(kernel) - 1, -1))
    taps = wrapped(weight.unflatten(1, (*kernel, -1)).movedim(0, -1), kernel)  # (*kernel, in, out)
    symbol = torch.fft.rfftn(taps, dim=tuple(range(len(kernel))))
    waves = torch.einsum("...f,...fc->...c", torch.fft.rfftn(x, dim=axes), symbol)
    out: Tensor = torch.fft.irfftn(waves, s=kernel, dim=axes)
    return out if bias is None else out + bias


def wrapped(taps: Tensor, kernel: tuple[int, ...]) -> Tensor:
    """Reorder taps (*kernel, ...), stored around the middle of a kernel, as Fourier transforms take them, or back."""
    for axis, size in enumerate(kernel):
        taps = taps.index_select(axis, (-(torch.arange(size, device=taps.device) - (size - 1) // 2)) % size)
    return taps


def _split(x: Tensor, rank: int) -> tuple[torch.Size, torch.Size]:
    return x.shape[: x.ndim - rank - 1], x.shape[x.ndim - rank - 1 : -1]


def _sampled_patches(x: Tensor, kernel: tuple[int, ...], boundary: Sides, steps: Sequence[float]) -> Tensor:
    # The last axis first: every axis puts its offsets before what is there, so that the first axis ends up outermost.
    for place in reversed(range(len(kernel))):
        axis, size, step = place - len(kernel) - 1, kernel[place], steps[place]
        before, after = _reach(size)
        low, high = (math.ceil(reach * step) + 2 if size > 1 else 0 for reach in (before, after))
        wide, points = pad(x, axis, low, high, boundary[place]), x.shape[axis]
        x = torch.cat([_at(wide, axis, low + step * k, points) for k in range(-before, after + 1)], dim=-1)
    return x


def _at(wide: Tensor, axis: int, start: float, points: int) -> Tensor:
    """`points` values one apart from position `start` on, between grid points by the cubic through four of them."""
    first = math.floor(start + _WHOLE)
    t = start - first
    if abs(t) <= _WHOLE:
        return wide.narrow(axis, first, points)
    weights = (
        -t * (t - 1) * (t - 2) / 6,
        (t + 1) * (t - 1) * (t - 2) / 2,
        -(t + 1) * t * (t - 2) / 2,
        (t + 1) * t * (t - 1) / 6,
    )
    parts = [w * wide.narrow(axis, first - 1 + k, points) for k, w in enumerate(weights)]
    return parts[0] + parts[1] + parts[2] + parts[3]
