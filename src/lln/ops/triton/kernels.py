"""The transport as Triton kernels. Importing this file needs Triton; nothing else here checks its input.

The 32 lanes of a warp are 32 neighbouring hidden units, and every lane carries several samples in registers, so that a
sum over samples stays in its lane until the warps of a program meet. Row strides are deliberately not specialised
(`do_not_specialize`): knowing that h is a multiple of 16 would make Triton give each lane four neighbouring units and
spread the samples over lanes.

Coefficients come packed as (S, D, K, h) with the weights w_i multiplied in (see `grid.py` for the algebra).
"""

from __future__ import annotations

import triton
import triton.language as tl

LANES = tl.constexpr(32)
# Adding these rounds to an integer and leaves the biased exponent of a power of two in the lowest bits.
_MAGIC = tl.constexpr(12583039.0)  # 1.5 * 2^23 + 127, float32
_MAGIC64 = tl.constexpr(6755399441056767.0)  # 1.5 * 2^52 + 1023, float64
_LN2 = tl.constexpr(0.6931471805599453)

_RUN_TIME = ["h", "B", "D"]


@triton.jit
def _exp2_pair(a, b, c, low, BOTH: tl.constexpr):
    """2^(a b + c + low) and, if BOTH, its reciprocal, for c an integer and low tiny."""
    DOUBLE: tl.constexpr = a.dtype == tl.float64
    MAGIC: tl.constexpr = _MAGIC64 if DOUBLE else _MAGIC
    INTEGER: tl.constexpr = tl.int64 if DOUBLE else tl.int32
    SHIFT: tl.constexpr = 52 if DOUBLE else 23
    shifted = tl.fma(a, b, c) + MAGIC
    whole = shifted - MAGIC
    rest = tl.fma(a, b, c - whole) + low
    exponent = shifted.to(INTEGER, bitcast=True) << SHIFT
    value = tl.exp2(rest) * exponent.to(a.dtype, bitcast=True)
    if BOTH:
        # A reciprocal would be faster, but its error is tied to that of `value` and breaks the bound on gradients.
        ONE: tl.constexpr = 2046 if DOUBLE else 254
        flipped = (tl.full(exponent.shape, ONE, INTEGER) << SHIFT) - exponent
        return value, tl.exp2(-rest) * flipped.to(a.dtype, bitcast=True)
    else:
        return value, value


@triton.jit
def _numbers(NUMBERS):
    """L, s, kappa, gamma, its remainder, C and the clamp, in the precision of the rays."""
    return (
        tl.load(NUMBERS),
        tl.load(NUMBERS + 1),
        tl.load(NUMBERS + 2),
        tl.load(NUMBERS + 3),
        tl.load(NUMBERS + 4),
        tl.load(NUMBERS + 5),
        tl.load(NUMBERS + 6),
    )


@triton.jit
def _factors(y, anchor, kappa, gamma, gamma_low, offset, clamp, SINGLE: tl.constexpr):
    """z, 2^(C - z^2), E, 1 / E. The clamp lets NaN through."""
    z = (y - anchor) * kappa
    z = tl.minimum(z, clamp, propagate_nan=tl.PropagateNan.ALL)
    z = tl.maximum(z, -clamp, propagate_nan=tl.PropagateNan.ALL)
    prefactor, _ = _exp2_pair(-z, z, offset + tl.zeros_like(z), tl.zeros_like(z), False)
    if SINGLE:
        return z, prefactor, prefactor, prefactor
    else:
        power, inverse = _exp2_pair(z, gamma + tl.zeros_like(z), tl.zeros_like(z), gamma_low * z, True)
        return z, prefactor, power, inverse


@triton.jit
def _field(
    y,
    lens,
    units,
    inside,
    h,
    kappa,
    gamma,
    gamma_low,
    offset,
    clamp,
    ANCHORS: tl.constexpr,
    BELOW: tl.constexpr,
    ABOVE: tl.constexpr,
):
    """phi(y) of one packed lens; ANCHORS, BELOW and ABOVE describe the groups."""
    field = tl.zeros_like(y)
    row = lens
    for g in tl.static_range(len(BELOW)):
        _z, prefactor, power, inverse = _factors(
            y, ANCHORS[g], kappa, gamma, gamma_low, offset, clamp, BELOW[g] + ABOVE[g] == 0
        )
        top = row + (BELOW[g] + ABOVE[g]) * h
        up = tl.load(top + units, mask=inside, other=0.0)[None, :] + tl.zeros_like(y)
        for i in tl.static_range(1, ABOVE[g] + 1):
            up = up * power + tl.load(top - i * h + units, mask=inside, other=0.0)[None, :]
        if BELOW[g] > 0:
            down = tl.load(row + units, mask=inside, other=0.0)[None, :] + tl.zeros_like(y)
            for i in tl.static_range(1, (BELOW[g] - 1) + 1):
                down = down * inverse + tl.load(row + i * h + units, mask=inside, other=0.0)[None, :]
            up = up + inverse * down
        field += prefactor * up
        row += (BELOW[g] + 1 + ABOVE[g]) * h
    return field


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
    K: tl.constexpr,
    ANCHORS: tl.constexpr,
    BELOW: tl.constexpr,
    ABOVE: tl.constexpr,
    ROWS: tl.constexpr,
):
    """One program: ROWS samples x 32 hidden units of one member through all D layers."""
    length, scale, kappa, gamma, gamma_low, offset, clamp = _numbers(NUMBERS)
    member = tl.program_id(2).to(tl.int64)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    units = tl.program_id(1) * LANES + tl.arange(0, LANES)
    inside = units < h
    mask = (rows[:, None] < B) & inside[None, :]
    at = member * B * h + rows[:, None].to(tl.int64) * h + units[None, :]
    y = tl.load(Y + at, mask=mask, other=0.0)
    theta = tl.load(THETA + at, mask=mask, other=0.0)
    lens = LENSES + member * D * K * h
    for _ in range(D):
        y += length * theta
        theta += scale * _field(
            y, lens, units, inside, h, kappa, gamma, gamma_low, offset, clamp, ANCHORS, BELOW, ABOVE
        )
        lens += K * h
    tl.store(Y_OUT + at, y, mask=mask)
    tl.store(THETA_OUT + at, theta, mask=mask)


@triton.jit
def _accumulate(target, units, inside, grad_theta, term, SINGLE: tl.constexpr):
    """target[units] (+)= sum over the samples of grad_theta * term.

    The target belongs to this program alone. Adding by an atomic that returns nothing only spares the wait for the old
    value; one lane adds to one address in program order, so the bits are the same every time.
    """
    total = tl.sum(grad_theta * term, 0)
    if SINGLE:
        tl.store(target + units, total, mask=inside)
    else:
        tl.atomic_add(target + units, total, mask=inside, sem="relaxed")


@triton.jit
def _adjoint(
    y,
    grad_theta,
    lens,
    sums,
    units,
    inside,
    h,
    kappa,
    gamma,
    gamma_low,
    offset,
    clamp,
    ANCHORS: tl.constexpr,
    BELOW: tl.constexpr,
    ABOVE: tl.constexpr,
    SINGLE: tl.constexpr,
):
    """phi(y) and phi'(y) of one packed lens; adds the lens's coefficient gradients (before w_i) to `sums`."""
    field = tl.zeros_like(y)
    slope = tl.zeros_like(y)
    row = lens
    out = sums
    for g in tl.static_range(len(BELOW)):
        z, prefactor, power, inverse = _factors(
            y, ANCHORS[g], kappa, gamma, gamma_low, offset, clamp, BELOW[g] + ABOVE[g] == 0
        )
        top = row + (BELOW[g] + ABOVE[g]) * h
        middle = out + BELOW[g] * h
        up = tl.load(top + units, mask=inside, other=0.0)[None, :] + tl.zeros_like(y)
        up_slope = tl.zeros_like(y)
        term = prefactor
        for i in tl.static_range(1, ABOVE[g] + 1):
            up_slope = up_slope * power + up
            up = up * power + tl.load(top - i * h + units, mask=inside, other=0.0)[None, :]
            _accumulate(middle + (i - 1) * h, units, inside, grad_theta, term, SINGLE)
            term = term * power
        _accumulate(middle + ABOVE[g] * h, units, inside, grad_theta, term, SINGLE)
        moment = up_slope * power
        if BELOW[g] > 0:
            down = tl.load(row + units, mask=inside, other=0.0)[None, :] + tl.zeros_like(y)
            down_slope = down
            term = prefactor * inverse
            for i in tl.static_range(1, (BELOW[g] - 1) + 1):
                down = down * inverse + tl.load(row + i * h + units, mask=inside, other=0.0)[None, :]
                down_slope = down_slope * inverse + down
                _accumulate(middle - i * h, units, inside, grad_theta, term, SINGLE)
                term = term * inverse
            _accumulate(out, units, inside, grad_theta, term, SINGLE)
            up = up + inverse * down
            moment = moment - inverse * down_slope
        value = prefactor * up
        field += value
        slope += (gamma * (prefactor * moment) - 2.0 * z * value) * (kappa * _LN2)
        row += (BELOW[g] + 1 + ABOVE[g]) * h
        out += (BELOW[g] + 1 + ABOVE[g]) * h
    return field, slope


@triton.jit
def _backward_tile(
    Y,
    THETA,
    GRAD_Y,
    GRAD_THETA,
    GRAD_Y_OUT,
    GRAD_THETA_OUT,
    member,
    tile,
    lenses,
    sums,
    path,
    units,
    inside,
    B,
    h,
    D,
    lanes,
    length,
    scale,
    kappa,
    gamma,
    gamma_low,
    offset,
    clamp,
    K: tl.constexpr,
    ANCHORS: tl.constexpr,
    BELOW: tl.constexpr,
    ABOVE: tl.constexpr,
    ROWS: tl.constexpr,
    INVERSE: tl.constexpr,
    SINGLE: tl.constexpr,
):
    rows = tile * ROWS + tl.arange(0, ROWS)
    mask = (rows[:, None] < B) & inside[None, :]
    at = member * B * h + rows[:, None].to(tl.int64) * h + units[None, :]
    y = tl.load(Y + at, mask=mask, other=0.0)
    theta = tl.load(THETA + at, mask=mask, other=0.0)
    grad_y = tl.load(GRAD_Y + at, mask=mask, other=0.0)
    grad_theta = tl.load(GRAD_THETA + at, mask=mask, other=0.0)
    slot = tl.arange(0, ROWS)[:, None] * lanes + tl.arange(0, LANES)[None, :]
    if not INVERSE:
        step = path
        lens = lenses
        for _ in range(D):
            y += length * theta
            tl.store(step + slot, y, eviction_policy="evict_first")  # the cache is for the lenses
            theta += scale * _field(
                y, lens, units, inside, h, kappa, gamma, gamma_low, offset, clamp, ANCHORS, BELOW, ABOVE
            )
            lens += K * h
            step += ROWS * LANES
    # The next layer's positions are asked for one layer ahead, behind this layer's arithmetic.
    ahead = y
    for back in range(D):
        layer = D - 1 - back
        if not INVERSE:
            y = ahead
            before = path + tl.maximum(layer - 1, 0) * (ROWS * LANES) + slot
            ahead = tl.load(before, eviction_policy="evict_first")
        field, slope = _adjoint(
            y,
            grad_theta,
            lenses + layer * K * h,
            sums + layer * K * h,
            units,
            inside,
            h,
            kappa,
            gamma,
            gamma_low,
            offset,
            clamp,
            ANCHORS,
            BELOW,
            ABOVE,
            SINGLE,
        )
        grad_y += scale * (slope * grad_theta)
        grad_theta += length * grad_y
        if INVERSE:
            theta -= scale * field
            y -= length * theta
    tl.store(GRAD_Y_OUT + at, grad_y, mask=mask)
    tl.store(GRAD_THETA_OUT + at, grad_theta, mask=mask)


@triton.jit(do_not_specialize=[*_RUN_TIME, "tiles", "lanes"])
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
    lanes,
    K: tl.constexpr,
    ANCHORS: tl.constexpr,
    BELOW: tl.constexpr,
    ABOVE: tl.constexpr,
    ROWS: tl.constexpr,
    INVERSE: tl.constexpr,
    SINGLE: tl.constexpr,
):
    """One program sweeps every P-th tile of rows of 32 units and keeps its own sums of coefficient gradients.

    SUMS is (P, S, D, K, h), zero at the start unless every program has a SINGLE tile; PATH is one (D, ROWS, 32) scratch
    per program. No two programs add to the same place, so the same bits every time. `lanes` is 32, known only at run
    time, so that the scratch is addressed in the layout of the state.
    """
    length, scale, kappa, gamma, gamma_low, offset, clamp = _numbers(NUMBERS)
    part = tl.program_id(0)
    parts = tl.num_programs(0)
    member = tl.program_id(2).to(tl.int64)
    members = tl.num_programs(2)
    units = tl.program_id(1) * LANES + tl.arange(0, LANES)
    inside = units < h
    lenses = LENSES + member * D * K * h
    sums = SUMS + (part * members + member) * D * K * h
    program = (part * members + member) * tl.num_programs(1) + tl.program_id(1)
    path = PATH + program * D * (ROWS * LANES)
    for tile in range(part, tiles, parts):
        _backward_tile(
            Y,
            THETA,
            GRAD_Y,
            GRAD_THETA,
            GRAD_Y_OUT,
            GRAD_THETA_OUT,
            member,
            tile,
            lenses,
            sums,
            path,
            units,
            inside,
            B,
            h,
            D,
            lanes,
            length,
            scale,
            kappa,
            gamma,
            gamma_low,
            offset,
            clamp,
            K,
            ANCHORS,
            BELOW,
            ABOVE,
            ROWS,
            INVERSE,
            SINGLE,
        )


@triton.jit(do_not_specialize=["parts", "h", "rows"])
def finish_kernel(SUMS, WEIGHTS, OUT, parts, h, rows, K: tl.constexpr, K_PADDED: tl.constexpr):
    """OUT[row, unit, k] = w_k * sum over parts of SUMS[part, row, k, unit]; a row is one layer of one member."""
    row = tl.program_id(0).to(tl.int64)
    units = tl.program_id(1) * LANES + tl.arange(0, LANES)
    k = tl.arange(0, K_PADDED)
    mask = (k[:, None] < K) & (units[None, :] < h)
    at = SUMS + row * K * h + k[:, None] * h + units[None, :]
    total = tl.zeros([K_PADDED, LANES], SUMS.dtype.element_ty)
    for _ in range(parts):
        total += tl.load(at, mask=mask, other=0.0)
        at += rows.to(tl.int64) * K * h
    total *= tl.load(WEIGHTS + k, mask=k < K, other=0.0)[:, None]
    tl.store(OUT + row * h * K + units[None, :] * K + k[:, None], total, mask=mask)
