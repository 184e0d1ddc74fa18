"""The factored algebra of `grid.py` in plain torch: no dependency, any device, float32 or float64.

Every array here is (S, B, h), S ensemble members with coefficients (S, D, h, K) of their own. The backward
pass handles rows in tiles, so that its scratch (the positions behind every layer of a tile) stays small at any B and D.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lln.ops.grid import Grid, Group

# Elements of positions that the backward keeps at a time: little on the CPU, where tiles are cheap.
_SCRATCH = {"cpu": 1 << 21, "cuda": 1 << 26}
_LN2 = 0.6931471805599453

Pair = tuple[Tensor, Tensor]
Optics = tuple[Grid, float, float]  # grid, length, scale


def forward(y: Tensor, theta: Tensor, coefficients: Tensor, grid: Grid, length: float, scale: float) -> Pair:
    """Positions and angles behind the last layer."""
    packed = _pack(coefficients, grid)
    y, theta = y.clone(), theta.clone()
    for layer in packed.unbind(0):
        y.add_(theta, alpha=length)
        theta.add_(_field(y, layer, grid), alpha=scale)
    return y, theta


def backward(
    rays: Pair, grads: Pair, coefficients: Tensor, grid: Grid, length: float, scale: float, from_outputs: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients for positions, angles and coefficients.

    With `from_outputs`, the rays are the stack's outputs and are carried back by the exact inverse; else they are its
    inputs and each tile of rows is run forward again.
    """
    packed = _pack(coefficients, grid)
    grad_packed = torch.zeros_like(packed)
    y, theta, grad_y, grad_theta = (tensor.clone() for tensor in (*rays, *grads))
    scratch = _SCRATCH.get(y.device.type, _SCRATCH["cpu"])
    rows = max(1, scratch // max(1, len(packed) * y.shape[0] * y.shape[2]))
    for first in range(0, y.shape[1], rows):
        tile = slice(first, first + rows)
        rays, grads = (y[:, tile], theta[:, tile]), (grad_y[:, tile], grad_theta[:, tile])
        _sweep(rays, grads, packed, grad_packed, (grid, length, scale), from_outputs)
    weights = _weights(grid, coefficients) * scale
    return grad_y, grad_theta, (grad_packed * weights).permute(1, 0, 3, 2).contiguous()


def _sweep(rays: Pair, grads: Pair, packed: Tensor, grad_packed: Tensor, optics: Optics, from_outputs: bool) -> None:
    """Gradients of one tile, in place of the incoming ones; the rays are spent."""
    (y, theta), (grad_y, grad_theta), (grid, length, scale) = rays, grads, optics
    path = []
    for layer in () if from_outputs else packed.unbind(0):
        y = y.add(theta, alpha=length)
        path.append(y)
        theta.add_(_field(y, layer, grid), alpha=scale)
    for layer, grad_layer in reversed(list(zip(packed.unbind(0), grad_packed.unbind(0), strict=True))):
        field, slope = _adjoint(y if from_outputs else path.pop(), layer, grad_layer, grad_theta, grid)
        grad_y.add_(slope.mul_(grad_theta), alpha=scale)
        grad_theta.add_(grad_y, alpha=length)
        if from_outputs:
            theta.sub_(field, alpha=scale)
            y.sub_(theta, alpha=length)


def _pack(coefficients: Tensor, grid: Grid) -> Tensor:
    """(S, D, h, K) -> (D, S, K, h) with the weights w_i multiplied in."""
    return coefficients.permute(1, 0, 3, 2) * _weights(grid, coefficients)


def _weights(grid: Grid, like: Tensor) -> Tensor:
    weights = [w for group in grid.groups for w in group.weights]
    return torch.tensor(weights, dtype=like.dtype, device=like.device).unsqueeze(-1)


def _field(y: Tensor, layer: Tensor, grid: Grid) -> Tensor:
    """phi(y) of one packed lens (S, K, h)."""
    field = torch.zeros_like(y)
    for group in grid.groups:
        _, prefactor, power, inverse = _factors(y, group, grid)
        rows = layer[:, group.first : group.first + group.count].unsqueeze(-2).unbind(1)
        up = _horner(rows[: group.below - 1 if group.below else None : -1], power)
        if group.below:
            up = up.addcmul_(_horner(rows[: group.below], inverse), inverse)
        field.addcmul_(up, prefactor)
    return field


def _horner(rows: tuple[Tensor, ...], power: Tensor) -> Tensor:
    """rows[0] x^(n-1) + ... + rows[n-1], the highest power first."""
    value = rows[0].expand(power.shape).clone()
    for row in rows[1:]:
        value.mul_(power).add_(row)
    return value


def _adjoint(y: Tensor, layer: Tensor, grad_layer: Tensor, grad_theta: Tensor, grid: Grid) -> tuple[Tensor, Tensor]:
    """phi(y), phi'(y); adds grad_theta * (basis function / w_i), summed over rows, to grad_layer."""
    field, slope = torch.zeros_like(y), torch.zeros_like(y)
    for group in grid.groups:
        z, prefactor, power, inverse = _factors(y, group, grid)
        terms: dict[int, Tensor] = {0: prefactor}
        for i in range(1, group.above + 1):
            terms[i] = terms[i - 1] * power
        for i in range(-1, -group.below - 1, -1):
            terms[i] = terms[i + 1] * inverse
        value, moment = torch.zeros_like(y), torch.zeros_like(y)
        for i, term in terms.items():
            k = group.first + group.below + i
            grad_layer[:, k].add_((term * grad_theta).sum(-2))
            weighted = term.mul(layer[:, k].unsqueeze(-2))
            value.add_(weighted)
            moment.add_(weighted, alpha=i)
        field.add_(value)
        slope.add_(moment.mul_(grid.gamma).addcmul_(z, value, value=-2.0), alpha=grid.kappa * _LN2)
    return field, slope


def _factors(y: Tensor, group: Group, grid: Grid) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """z, 2^(C - z^2), E and 1 / E."""
    z = y.sub(group.anchor).mul_(grid.kappa).clamp_(-grid.clamp, grid.clamp)
    prefactor = _exp2(z, -z, float(grid.offset))
    prefactor.masked_fill_(z.abs() >= grid.clamp, 0.0)
    if group.count == 1:
        return z, prefactor, prefactor, prefactor
    power = _exp2(z, torch.tensor(grid.gamma + grid.gamma_low, dtype=torch.float64, device=z.device), 0.0)
    return z, prefactor, power, power.reciprocal()


def _exp2(a: Tensor, b: Tensor, c: float) -> Tensor:
    """2^(a b + c), with the exponent formed in twice the precision where there is one: a b can exceed 100."""
    if a.dtype == torch.float64:
        return torch.exp2(a * b + c)
    exponent = a.double().mul_(b).add_(c)
    return torch.exp2(exponent).to(a.dtype)
