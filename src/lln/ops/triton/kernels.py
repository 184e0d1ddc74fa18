"""The transport as Triton kernels. Importing this file needs Triton; nothing else here checks its input.

The 32 lanes of a warp are 32 neighbouring hidden units, and every lane carries several samples in registers, so that a
sum over samples stays in its lane. Row strides are not specialised (`do_not_specialize`): if Triton knew that a stride
is a multiple of 16, it would give each lane four neighbouring units and spread the samples over lanes.

Coefficients come packed as (S, C, D, K, 32) for C columns of 32 units, with the weights w_i and the lens scale
multiplied in (see `grid.py` for the algebra). Padding is zero.
"""

from __future__ import annotations

import triton
import triton.language as tl

LANES = tl.constexpr(32)
# Adding these rounds to an integer and leaves the biased exponent of a power of two in the lowest bits.
_MAGIC = tl.constexpr(12583039.0)  # 1.5 * 2^23 + 127, float32
_MAGIC64 = tl.constexpr(6755399441056767.0)  # 1.5 * 2^52 + 1023, float64
_LN2 = tl.constexpr(0.6931471805599453)

_RUN_TIME = ["B", "h", "D", "stride", "layer"]


@triton.jit
def _numbers(NUMBERS):
    """L, kappa, gamma, its remainder, C and the clamp, in the precision of the rays."""
    return (
        tl.load(NUMBERS),
        tl.load(NUMBERS + 1),
        tl.load(NUMBERS + 2),
        tl.load(NUMBERS + 3),
        tl.load(NUMBERS + 4),
        tl.load(NUMBERS + 5),
    )


@triton.jit
def _factors(y, anchor, optics, SINGLE: tl.constexpr):
    """z, 2^(C - z^2), E, 1 / E. The clamp lets NaN through.

    The exponents are known to more digits than a number holds: an integer and a remainder for the first power, a number
    and its rounding error e for the second, 2^(x + e) = 2^x + 2^x e ln 2.
    """
    DOUBLE: tl.constexpr = y.dtype == tl.float64
    MAGIC: tl.constexpr = _MAGIC64 if DOUBLE else _MAGIC
    _length, kappa, gamma, gamma_low, offset, clamp = optics
    z = (y - anchor) * kappa
    z = tl.minimum(z, clamp, propagate_nan=tl.PropagateNan.ALL)
    z = tl.maximum(z, -clamp, propagate_nan=tl.PropagateNan.ALL)
    base = tl.zeros_like(z) + (offset + MAGIC)
    # Triton writes -z as 0 - z, an addition; a product with -1 becomes a sign of the operand.
    flipped = z * -1.0
    shifted = tl.fma(flipped, z, base)
    rest = tl.fma(flipped, z, base - shifted)
    if DOUBLE:
        exponent = (shifted.to(tl.int64, bitcast=True) << 52).to(tl.float64, bitcast=True)
    else:
        exponent = (shifted.to(tl.int32, bitcast=True) << 23).to(tl.float32, bitcast=True)
    prefactor = tl.exp2(rest) * exponent
    if SINGLE:
        return z, prefactor, prefactor, prefactor
    else:
        slope = tl.zeros_like(z) + gamma
        x = slope * z
        error = tl.fma(tl.zeros_like(z) + gamma_low, z, tl.fma(slope, z, x * -1.0)) * _LN2
        power = tl.exp2(x)
        # A reciprocal would be faster, but its error is tied to that of `power` and breaks the bound on gradients.
        inverse = tl.exp2(x * -1.0)
        return z, prefactor, tl.fma(power, error, power), tl.fma(inverse * -1.0, error, inverse)


@triton.jit
def _field(y, lens, optics, ANCHORS: tl.constexpr, BELOW: tl.constexpr, ABOVE: tl.constexpr):
    """The change s phi(y) of the angle by one packed lens; `lens` points to its first coefficient in every lane."""
    field = tl.zeros_like(y)
    for g in tl.static_range(len(BELOW)):
        _z, prefactor, power, inverse = _factors(y, ANCHORS[g], optics, BELOW[g] + ABOVE[g] == 0)
        top = lens + (BELOW[g] + ABOVE[g]) * LANES
        up = tl.broadcast_to(tl.load(top)[None, :], y.shape)
        for i in tl.static_range(1, ABOVE[g] + 1):
            up = up * power + tl.load(top - i * LANES)[None, :]
        if BELOW[g] > 0:
            down = tl.broadcast_to(tl.load(lens)[None, :], y.shape)
            for i in tl.static_range(1, (BELOW[g] - 1) + 1):
                down = down * inverse + tl.load(lens + i * LANES)[None, :]
            up = up + inverse * down
        if g == 0:
            field = prefactor * up
        else:
            field += prefactor * up
        lens += (BELOW[g] + 1 + ABOVE[g]) * LANES
    return field


@triton.jit(do_not_specialize=["h", "D"])
def pack_kernel(COEFFICIENTS, WEIGHTS, OUT, h, D, K: tl.constexpr, K_PADDED: tl.constexpr):
    """OUT[s, c, d, k, lane] = w_k * COEFFICIENTS[s, d, unit, k], zero for the units beyond h."""
    layer, column, member = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    lane = tl.arange(0, LANES)
    k = tl.arange(0, K_PADDED)
    inside = (k < K)[:, None]
    units = column * LANES + lane
    place = COEFFICIENTS + ((member * D + layer) * h + units[None, :]) * K + k[:, None]
    values = tl.load(place, mask=inside & (units < h)[None, :], other=0.0)
    values *= tl.load(WEIGHTS + k, mask=k < K, other=0.0)[:, None]
    at = ((member * tl.num_programs(1) + column) * D + layer) * (K * LANES) + k[:, None] * LANES + lane[None, :]
    tl.store(OUT + at, values, mask=inside)


@triton.jit
def _behind(LENSES, D, K: tl.constexpr):
    """Where the packed coefficients of all members and columns end, and kept positions start."""
    return LENSES + tl.num_programs(2).to(tl.int64) * tl.num_programs(1) * D * (K * LANES)


@triton.jit(do_not_specialize=_RUN_TIME)
def forward_kernel(
    Y,
    THETA,
    LENSES,
    Y_OUT,
    THETA_OUT,
    NUMBERS,
    B,
    h,
    D,
    stride,
    layer,
    K: tl.constexpr,
    ANCHORS: tl.constexpr,
    BELOW: tl.constexpr,
    ABOVE: tl.constexpr,
    ROWS: tl.constexpr,
    KEEP: tl.constexpr,
):
    """One program: ROWS samples x 32 hidden units of one member through all D layers.

    KEEP stores the position in every layer behind the packed coefficients, (D, S, padded B, padded h), where `layer` is
    the distance of two layers and `stride` that of two rows.
    """
    optics = _numbers(NUMBERS)
    member, column = tl.program_id(2).to(tl.int64), tl.program_id(1)
    lane = tl.arange(0, LANES)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    units = column * LANES + lane
    mask = (rows[:, None] < B) & (units < h)[None, :]
    at = member * B * h + rows[:, None].to(tl.int64) * h + units[None, :]
    y = tl.load(Y + at, mask=mask, other=0.0)
    theta = tl.load(THETA + at, mask=mask, other=0.0)
    lens = LENSES + (member * tl.num_programs(1) + column) * D * (K * LANES) + lane
    if KEEP:
        padded = tl.num_programs(0).to(tl.int64) * ROWS
        path = _behind(LENSES, D, K) + (member * padded + rows[:, None]) * stride + units[None, :]
    for _ in range(D):
        y += optics[0] * theta
        if KEEP:
            tl.store(path, y, eviction_policy="evict_first")
            path += layer
        theta += _field(y, lens, optics, ANCHORS, BELOW, ABOVE)
        lens += K * LANES
    tl.store(Y_OUT + at, y, mask=mask)
    tl.store(THETA_OUT + at, theta, mask=mask)


@triton.jit
def _accumulate(target, grad_theta, term, FIRST: tl.constexpr):
    """Add the sum over the samples of grad_theta * term to the target; the FIRST sum is stored.

    The target belongs to this program alone. Adding by an atomic that returns nothing only spares the wait for the old
    value; one lane adds to one address in program order, so the bits are the same every time.
    """
    total = tl.sum(grad_theta * term, 0)
    if FIRST:
        tl.store(target, total)
    else:
        tl.atomic_add(target, total, sem="relaxed")


@triton.jit
def _adjoint(
    y,
    grad_theta,
    lens,
    out,
    optics,
    ANCHORS: tl.constexpr,
    BELOW: tl.constexpr,
    ABOVE: tl.constexpr,
    SINGLE: tl.constexpr,
):
    """As `_field`, and its derivative over 2 kappa ln 2; adds the coefficient gradients (before w_i) to `out`."""
    _length, _kappa, gamma, _low, _offset, _clamp = optics
    field = tl.zeros_like(y)
    slope = tl.zeros_like(y)
    for g in tl.static_range(len(BELOW)):
        z, prefactor, power, inverse = _factors(y, ANCHORS[g], optics, BELOW[g] + ABOVE[g] == 0)
        top = lens + (BELOW[g] + ABOVE[g]) * LANES
        middle = out + BELOW[g] * LANES
        up = tl.broadcast_to(tl.load(top)[None, :], y.shape)
        up_slope = tl.zeros_like(y)
        term = prefactor
        for i in tl.static_range(1, ABOVE[g] + 1):
            if i == 1:
                up_slope = up
            else:
                up_slope = up_slope * power + up
            up = up * power + tl.load(top - i * LANES)[None, :]
            _accumulate(middle + (i - 1) * LANES, grad_theta, term, SINGLE)
            term = term * power
        _accumulate(middle + ABOVE[g] * LANES, grad_theta, term, SINGLE)
        moment = up_slope * power
        if BELOW[g] > 0:
            down = tl.broadcast_to(tl.load(lens)[None, :], y.shape)
            down_slope = down
            term = prefactor * inverse
            for i in tl.static_range(1, (BELOW[g] - 1) + 1):
                down = down * inverse + tl.load(lens + i * LANES)[None, :]
                down_slope = down_slope * inverse + down
                _accumulate(middle - i * LANES, grad_theta, term, SINGLE)
                term = term * inverse
            _accumulate(out, grad_theta, term, SINGLE)
            up = up + inverse * down
            moment = moment - inverse * down_slope
        change = prefactor * (moment * (0.5 * gamma) - z * up)
        if g == 0:
            field, slope = prefactor * up, change
        else:
            field, slope = field + prefactor * up, slope + change
        lens += (BELOW[g] + 1 + ABOVE[g]) * LANES
        out += (BELOW[g] + 1 + ABOVE[g]) * LANES
    return field, slope


@triton.jit(do_not_specialize=[*_RUN_TIME, "tiles"])
def backward_kernel(
    Y,
    THETA,
    GRAD_Y,
    GRAD_THETA,
    LENSES,
    GRAD_Y_OUT,
    GRAD_THETA_OUT,
    SUMS,
    PATH,
    NUMBERS,
    tiles,
    B,
    h,
    D,
    stride,
    layer,
    K: tl.constexpr,
    ANCHORS: tl.constexpr,
    BELOW: tl.constexpr,
    ABOVE: tl.constexpr,
    ROWS: tl.constexpr,
    SOURCE: tl.constexpr,
    SINGLE: tl.constexpr,
):
    """One program sweeps every P-th tile of rows of 32 units and keeps its own sums of coefficient gradients.

    SUMS is (P, S, C, D, K, 32), zero at the start unless every program has a SINGLE tile. No two programs add to the
    same place, so the bits are the same every time. SOURCE says where the positions in the layers come from: "kept" are
    those that the forward kernel left behind LENSES; "scratch" computes them again into PATH, (programs, D, ROWS, 32);
    "inverse" carries the rays behind the stack, which Y and THETA are then, back.
    """
    optics = _numbers(NUMBERS)
    length = optics[0]
    slant = 2.0 * _LN2 * optics[1]
    part, column, member = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    parts, columns, members = tl.num_programs(0), tl.num_programs(1), tl.num_programs(2)
    lane = tl.arange(0, LANES)
    units = column * LANES + lane
    lenses = LENSES + (member * columns + column) * D * (K * LANES) + lane
    program = (part * members + member) * columns + column
    sums = SUMS + program * D * (K * LANES) + lane
    for tile in range(part, tiles, parts):
        local = tl.arange(0, ROWS)[:, None]
        rows = tile * ROWS + local
        mask = (rows < B) & (units < h)[None, :]
        at = member * B * h + rows.to(tl.int64) * h + units[None, :]
        grad_y = tl.load(GRAD_Y + at, mask=mask, other=0.0)
        grad_theta = tl.load(GRAD_THETA + at, mask=mask, other=0.0)
        if SOURCE == "kept":
            padded = tiles.to(tl.int64) * ROWS
            path = _behind(LENSES, D, K) + (member * padded + rows) * stride + units[None, :]
        else:
            path = PATH + program * D * layer + local * stride + lane[None, :]
            y = tl.load(Y + at, mask=mask, other=0.0)
            theta = tl.load(THETA + at, mask=mask, other=0.0)
        if SOURCE == "scratch":
            step = path
            lens = lenses
            for _ in range(D):
                y += length * theta
                tl.store(step, y, eviction_policy="evict_first")  # the cache is for the lenses
                theta += _field(y, lens, optics, ANCHORS, BELOW, ABOVE)
                lens += K * LANES
                step += layer
        # The positions of the next layer are asked for one layer ahead, behind the arithmetic of this one.
        if SOURCE != "inverse":
            path += (D - 1).to(tl.int64) * layer
            ahead = tl.load(path, eviction_policy="evict_first")
        lens = lenses + (D - 1) * (K * LANES)
        out = sums + (D - 1) * (K * LANES)
        for back in range(D):
            if SOURCE != "inverse":
                y = ahead
                path -= tl.where(back < D - 1, layer, 0)
                ahead = tl.load(path, eviction_policy="evict_first")
            field, slope = _adjoint(y, grad_theta, lens, out, optics, ANCHORS, BELOW, ABOVE, SINGLE)
            grad_y += slant * (slope * grad_theta)
            grad_theta += length * grad_y
            if SOURCE == "inverse":
                theta -= field
                y -= length * theta
            lens -= K * LANES
            out -= K * LANES
        tl.store(GRAD_Y_OUT + at, grad_y, mask=mask)
        tl.store(GRAD_THETA_OUT + at, grad_theta, mask=mask)


@triton.jit(do_not_specialize=["parts", "h", "D", "part"])
def finish_kernel(
    SUMS, WEIGHTS, OUT, parts, h, D, part, K: tl.constexpr, K_PADDED: tl.constexpr, AT_ONCE: tl.constexpr
):
    """OUT[s, d, unit, k] = w_k * sum over parts of SUMS[p, s, c, d, k, lane]; `part` is the distance of two parts."""
    layer, column, member = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    lane = tl.arange(0, LANES)
    k = tl.arange(0, K_PADDED)
    inside = (k < K)[:, None]
    at = SUMS + ((member * tl.num_programs(1) + column) * D + layer) * (K * LANES) + k[:, None] * LANES + lane[None, :]
    total = tl.zeros([K_PADDED, LANES], SUMS.dtype.element_ty)
    for first in range(0, parts, AT_ONCE):
        for i in tl.static_range(AT_ONCE):
            total += tl.load(at + i * part.to(tl.int64), mask=inside & (first + i < parts), other=0.0)
        at += AT_ONCE * part.to(tl.int64)
    total *= tl.load(WEIGHTS + k, mask=k < K, other=0.0)[:, None]
    units = column * LANES + lane
    place = OUT + ((member * D + layer) * h + units[None, :]) * K + k[:, None]
    tl.store(place, total, mask=inside & (units < h)[None, :])
