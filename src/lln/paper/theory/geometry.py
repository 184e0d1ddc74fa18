"""The geometry of the transport at one point of phase space (Section 4 and Appendix A).

With ``H_l`` the diagonal of ``s phi_l'(y_{l+1})``, a layer's Jacobian in (y, theta) is a refraction shear times a drift
shear,

    J_l = [[I, L I], [H_l, I + L H_l]] = [[I, 0], [H_l, I]] [[I, L I], [0, I]],

and every coordinate is a ray of its own: J is h independent 2 x 2 blocks [[a, b], [c, d]] with ``a d - b c = 1``. That
is the whole symplectic structure, so the functions here work on blocks of shape (..., h, 2, 2), and `dense` spreads
them out to the (2h, 2h) matrix over (y, theta). Everything is computed in float64, whatever the network's dtype.

How exact it is (``u = 2^-53`` is the unit roundoff, ``sigma`` the largest singular value of J, ``sigma_j`` that of the
block of ray j). The blocks are multiplied shear by shear in double-double arithmetic, with the shears' float64 entries
L and H taken as exact. Each of the 2D shears adds an error below ``2^-102`` of the partial products around it, together
below ``2D 2^-102 G_j``, where ``G_j = max_l |J_{D-1}...J_{l+1}| |J_l...J_0|`` is the `growth` of ray j. While
``D G_j <= 2^42 sigma_j`` (at D = 64: ``G_j`` up to ``6e10 sigma_j``), rounding to float64 dominates, each block is
right to ``1.01 u`` of its norm, and:

- ``log|det J|``, summed over the blocks without leaving double-double arithmetic, is off by
  ``4D 2^-102 sum_j G_j sigma_j``: below 1e-12 while ``D sum_j G_j sigma_j <= 10^18``. (From float64 entries it could
  not be known better than to ``u sum_j sigma_j^2``.)
- ``|J^T Omega J - Omega|`` is the largest ``|a d - b c - 1|``. Rounded entries move ``a d - b c`` by at most
  ``2.02 u (|ad| + |bc|) <= 2.02 u sigma^2``, since ``|ad| + |bc| <= (a^2 + b^2 + c^2 + d^2) / 2 <= sigma^2``. Forming
  the matrix product costs ``3 u sigma^2`` more (two terms a sum, all others exact zeros):
  ``6 u sigma^2 < 1e-15 sigma^2`` in all.
- Singular values of a matrix perturbed by E move by at most ``|E|`` (Weyl): ``1.01 sqrt(2) u sigma`` by rounding the
  block and about ``10 u sigma`` by the 2 x 2 singular value decomposition. The pairing
  ``|sigma_small - 1 / sigma_large|`` moves by twice that at most, as 1 / x has slope below 1 above 1:
  ``25 u sigma < 3e-15 sigma``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from lln.core.errors import InputError
from lln.models.lens import Lenses
from lln.ops import reference

_SPLITTER = 2.0**27 + 1.0


class Doubled(NamedTuple):
    """The unevaluated sum high + low."""

    high: Tensor
    low: Tensor

    def rounded(self) -> Tensor:
        """The nearest float64."""
        return self.high + self.low


def two_sum(a: Tensor, b: Tensor) -> Doubled:
    """``a + b`` exactly (Knuth)."""
    total = a + b
    shadow = total - a
    return Doubled(total, (a - (total - shadow)) + (b - shadow))


def two_product(a: Tensor, b: Tensor) -> Doubled:
    """``a * b`` exactly, without a fused multiply-add (Dekker)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _split(a), _split(b)
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return Doubled(product, error)


def add(a: Doubled, b: Doubled) -> Doubled:
    """``a + b``, also right where the two cancel."""
    high, carry = two_sum(a.high, b.high)
    low, rest = two_sum(a.low, b.low)
    high, carry = _renormalised(high, carry + low)
    return _renormalised(high, carry + rest)


def times(a: Doubled, b: Doubled) -> Doubled:
    """``a * b``."""
    product, error = two_product(a.high, b.high)
    return _renormalised(product, error + (a.high * b.low + a.low * b.high))


def times_plus(factor: Tensor, a: Doubled, b: Doubled) -> Doubled:
    """``factor * a + b``, for a factor of ordinary precision."""
    product, error = two_product(factor, a.high)
    return add(_renormalised(product, error + factor * a.low), b)


def _renormalised(high: Tensor, low: Tensor) -> Doubled:
    total = high + low
    return Doubled(total, low - (total - high))


def _split(a: Tensor) -> tuple[Tensor, Tensor]:
    scaled = _SPLITTER * a
    high = scaled - (scaled - a)
    return high, a - high


@dataclass(frozen=True)
class Geometry:
    """What the theory says about a stack at one point, measured."""

    log_abs_det: float  #: log|det J|; exactly 0 in theory.
    symplectic_defect: float  #: ``|J^T Omega J - Omega| / sigma_max^2`` in the spectral norm; 0 in theory.
    pairing_defect: float  #: see `pairing_defect`; 0 in theory.
    sigma_max: float  #: largest singular value |J| of the stack; the smallest is its reciprocal.
    condition: float  #: see `condition`.
    round_trip: float  #: see `round_trip_error`; rounding alone, about the unit roundoff times `condition`.


@torch.no_grad()
def geometry_at(optics: Lenses, y: Tensor, theta: Tensor) -> Geometry:
    """All claims of the theory at one point (y, theta), each of shape (h,)."""
    _check(optics, y, theta, batch=False)
    blocks = stack_blocks(optics, y, theta)
    values = singular_values(blocks)
    return Geometry(
        log_abs_det=float(log_abs_det(optics, y, theta)),
        symplectic_defect=float(symplectic_defect(dense(blocks)) / values[0] ** 2),
        pairing_defect=float(pairing_defect(values)),
        sigma_max=float(values[0]),
        condition=float(condition(optics, y, theta)),
        round_trip=float(round_trip_error(optics, y, theta)),
    )


def lens_powers(optics: Lenses, y: Tensor, theta: Tensor) -> Tensor:
    """The diagonals ``H_l = s phi_l'(y_{l+1})`` along the ray that starts at (y, theta): (D, ..., h)."""
    _check(optics, y, theta)
    coefficients, y, theta = optics.coefficients.detach().double(), y.double(), theta.double()
    powers = []
    for layer in coefficients:
        y, theta = _one_layer(optics, y, theta, layer)
        powers.append(optics.lens_scale * reference.lens_slope(y, layer, optics.centers, optics.sigma))
    return torch.stack(powers)


def layer_blocks(optics: Lenses, y: Tensor, theta: Tensor) -> Tensor:
    """Every layer's Jacobian along the ray, [[1, L], [H, 1 + L H]] per coordinate: (D, ..., h, 2, 2)."""
    powers = lens_powers(optics, y, theta)
    one, length = torch.ones_like(powers), torch.full_like(powers, optics.length)
    return torch.stack((one, length, powers, 1.0 + length * powers), dim=-1).reshape(*powers.shape, 2, 2)


def stack_blocks(optics: Lenses, y: Tensor, theta: Tensor) -> Tensor:
    """The stack's Jacobian ``J_{D-1}...J_0``, right to the last digit (see the module): (..., h, 2, 2)."""
    position, angle = _shear_product(lens_powers(optics, y, theta), optics.length)
    return torch.stack((position.rounded(), angle.rounded()), dim=-2)


def dense(blocks: Tensor) -> Tensor:
    """Blocks (..., h, 2, 2) as the matrix over (y, theta) that they stand for, (..., 2h, 2h)."""
    quarters = torch.diag_embed(blocks.movedim((-2, -1), (0, 1)))
    return torch.cat([torch.cat(list(row), dim=-1) for row in quarters], dim=-2)


def autograd_jacobian(optics: Lenses, y: Tensor, theta: Tensor) -> Tensor:
    """The stack's Jacobian by automatic differentiation, knowing nothing of blocks: y, theta (h,) -> (2h, 2h)."""
    _check(optics, y, theta, batch=False)
    coefficients = optics.coefficients.detach().double()

    def transport(point: Tensor) -> Tensor:
        y, theta = point.chunk(2)
        end = reference.lens_transport(
            y, theta, coefficients, optics.centers, optics.sigma, optics.length, optics.lens_scale
        )
        return torch.cat(end)

    jacobian: Tensor = torch.func.jacrev(transport)(torch.cat((y, theta)).double())
    return jacobian


def log_abs_det(optics: Lenses, y: Tensor, theta: Tensor) -> Tensor:
    """log|det J| of the stack, (...): the sum over coordinates of log|a d - b c|, in double-double arithmetic."""
    (a, b), (c, d) = (_columns(row) for row in _shear_product(lens_powers(optics, y, theta), optics.length))
    minus_bc = times(Doubled(-b.high, -b.low), c)
    excess = add(add(times(a, d), minus_bc), Doubled(-torch.ones_like(a.high), torch.zeros_like(a.high)))
    return torch.log1p(excess.rounded()).sum(-1)


def symplectic_defect(jacobian: Tensor) -> Tensor:
    """``|J^T Omega J - Omega|`` in the spectral norm, (...), for any (..., 2h, 2h) matrix over (y, theta)."""
    eye = torch.eye(jacobian.shape[-1] // 2, dtype=jacobian.dtype, device=jacobian.device)
    omega = torch.kron(torch.tensor([[0, 1], [-1, 0]]).to(eye), eye)  # [[0, I], [-I, 0]]
    norm: Tensor = torch.linalg.matrix_norm(jacobian.mT @ omega @ jacobian - omega, ord=2)
    return norm


def singular_values(blocks: Tensor) -> Tensor:
    """The 2h singular values of the matrix that the blocks stand for, largest first: (..., 2h)."""
    values: Tensor = torch.linalg.svdvals(blocks).flatten(-2)
    return values.sort(dim=-1, descending=True).values


def pairing_defect(values: Tensor) -> Tensor:
    """How far singular values, largest first, (..., 2h), are from reciprocal pairs: (...).

    The i-th largest should be the reciprocal of the i-th smallest. A singular value is only ever known to a fraction of
    the largest one, so the defect is ``max_i |sigma_{2h+1-i} - 1 / sigma_i| / sigma_1`` over the h large ones.
    """
    half = values.shape[-1] // 2
    large, small = values[..., :half], values.flip(-1)[..., :half]
    return (small - 1.0 / large).abs().amax(-1) / values[..., 0]


def condition(optics: Lenses, y: Tensor, theta: Tensor) -> Tensor:
    """How much the way back can magnify a disturbance on the way: ``max_l |(J_l...J_0)^-1|``, at least 1, (...).

    A disturbance behind layer l reaches the entrance through the inverse of the first layers, whose norm is that of the
    layers themselves (the singular values are paired). The whole stack alone would not do: rays that spread and are
    focused again have a small |J|, but a disturbance where they are widest comes back magnified.
    """
    norms = _partial_norms(list(layer_blocks(optics, y, theta)), lambda layer, product: layer @ product)
    return norms.amax(-1).amax(0).clamp_min(1.0)


def growth(optics: Lenses, y: Tensor, theta: Tensor) -> Tensor:
    """``G_j = max_l |J_{D-1}...J_{l+1}| |J_l...J_0|`` of every ray, (..., h): what magnifies errors in its product."""
    layers = list(layer_blocks(optics, y, theta))
    before = _partial_norms(layers, lambda layer, product: layer @ product)
    after = _partial_norms(layers[::-1], lambda layer, product: product @ layer).flip(0)
    return torch.cat((before[:-1] * after[1:], before[-1:])).amax(0)


def round_trip_error(optics: Lenses, y: Tensor, theta: Tensor) -> Tensor:
    """|inverse(forward(z)) - z| in the largest entry, relative to the largest state or bend on the way: (...).

    To first order it is the sum of the rounding errors of all layers, there and back, each magnified by at most
    `condition`. One layer rounds about K + 8 times, each time by u of the largest quantity it handles, so that 2D
    layers give, with random signs and six standard deviations, 6 sqrt(2D (K + 8)) u: 4e-14 at D = 64, K = 16.
    """
    _check(optics, y, theta)
    coefficients, y, theta = optics.coefficients.detach().double(), y.double(), theta.double()
    end, size = (y, theta), torch.maximum(y.abs(), theta.abs()).amax(-1)
    for layer in coefficients:
        end = _one_layer(optics, *end, layer)
        bend = optics.lens_scale * reference.lens_field(end[0], layer.abs(), optics.centers, optics.sigma)
        size = torch.stack((size, *(value.abs().amax(-1) for value in (*end, bend)))).amax(0)
    back = reference.inverse_transport(
        *end, coefficients, optics.centers, optics.sigma, optics.length, optics.lens_scale
    )
    return torch.maximum((back[0] - y).abs(), (back[1] - theta).abs()).amax(-1) / size


def _one_layer(optics: Lenses, y: Tensor, theta: Tensor, layer: Tensor) -> tuple[Tensor, Tensor]:
    return reference.lens_transport(
        y, theta, layer.unsqueeze(0), optics.centers, optics.sigma, optics.length, optics.lens_scale
    )


def _shear_product(powers: Tensor, length: float) -> tuple[Doubled, Doubled]:
    """The rows (a, b) and (c, d) of the stack's blocks, each (..., h, 2), unrounded."""
    zero, one = torch.zeros_like(powers[0]), torch.ones_like(powers[0])
    nothing = torch.zeros_like(torch.stack((one, zero), dim=-1))
    position = Doubled(torch.stack((one, zero), dim=-1), nothing)
    angle = Doubled(torch.stack((zero, one), dim=-1), nothing)
    distance = torch.full_like(nothing, length)
    for power in powers:
        position = times_plus(distance, angle, position)
        angle = times_plus(power.unsqueeze(-1).expand_as(nothing), position, angle)
    return position, angle


def _columns(row: Doubled) -> tuple[Doubled, Doubled]:
    return Doubled(row.high[..., 0], row.low[..., 0]), Doubled(row.high[..., 1], row.low[..., 1])


def _partial_norms(layers: list[Tensor], multiply: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Spectral norm of every partial product and ray, (D, ..., h), each next layer taken in by `multiply`."""
    norms, product = [], torch.eye(2, dtype=torch.float64, device=layers[0].device)
    for layer in layers:
        product = multiply(layer, product)
        (a, b), (c, d) = (row.unbind(-1) for row in product.unbind(-2))
        norms.append((torch.hypot(a + d, b - c) + torch.hypot(a - d, b + c)) / 2)
    return torch.stack(norms)


def _check(optics: Lenses, y: Tensor, theta: Tensor, *, batch: bool = True) -> None:
    width = optics.coefficients.shape[1]
    expected = f"(..., {width})" if batch else f"({width},)"
    for name, value in (("y", y), ("theta", theta)):
        if value.ndim < 1 or value.shape[-1] != width or not (batch or value.ndim == 1):
            raise InputError(f"{name} must have shape {expected}, one entry per ray, got {tuple(value.shape)}")
        if value.device != optics.coefficients.device:
            device = optics.coefficients.device
            raise InputError(f"{name} is on {value.device} but the lenses are on {device}; move one with .to(...)")
