"""What every backend of the transport must keep: the tests and the gate of the benchmark hold all of them to it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from lln.ops import lens_transport

NAMES = ("y", "theta", "grad_y", "grad_theta", "grad_coefficients")

# (rows, width, depth, basis, ratio): ugly sizes first, then single and grouped grids.
SIZES = [
    (7, 37, 1, 1, 1.0),
    (1, 1, 1, 2, 1.0),
    (7, 37, 3, 12, 1.0),
    (65, 63, 5, 12, 1.0),
    (5, 16, 40, 8, 0.7),
    (33, 20, 4, 12, 0.5),
    (3, 130, 2, 16, 0.3),
    (4, 48, 6, 5, 4.0),
    (6, 17, 1, 16, 100.0),
    (6, 17, 40, 40, 24.0),
    (6, 17, 3, 16, 7500.0),
]
# (position, ratio): where every ray starts, in and far outside the control points, for single and grouped grids.
FAR = list(itertools.product((0.0, 3.0, 1e3, 1e30), (1.0, 0.5)))


@dataclass(frozen=True)
class Case:
    """A stack, its rays and the gradients that come back to it, in float32.

    Attributes:
        y: positions, (B, h), or (S, B, h) for an ensemble.
        theta: angles, like `y`.
        coefficients: (D, h, K), or (S, D, h, K).
        grad_y: gradient of the positions behind the stack, like `y`.
        grad_theta: gradient of the angles behind the stack, like `y`.
        centers: the K control points.
        sigma: width of the Gaussians.
        length: propagation distance L of one layer.
        scale: lens scale s.
    """

    y: Tensor
    theta: Tensor
    coefficients: Tensor
    grad_y: Tensor
    grad_theta: Tensor
    centers: tuple[float, ...]
    sigma: float
    length: float
    scale: float

    def optics(self) -> tuple[tuple[float, ...], float, float, float]:
        """What the operator takes behind the tensors."""
        return self.centers, self.sigma, self.length, self.scale


def make_case(
    rows: int = 7,
    width: int = 37,
    depth: int = 3,
    basis: int = 12,
    ratio: float = 1.0,
    *,
    members: int = 0,
    spread: float = 1.5,
    strength: float = 0.3,
    horizon: float = 1.0,
    scale: float = 1.0,
    low: float = -3.0,
    high: float = 3.0,
    seed: int = 0,
    device: str = "cpu",
) -> Case:
    """A random stack, the same on every device for the same arguments.

    Args:
        rows: batch size B.
        width: h.
        depth: D.
        basis: K.
        ratio: width of the Gaussians over the spacing of the control points.
        members: ensemble members S; 0 leaves that dimension out.
        spread: standard deviation of the positions.
        strength: standard deviation of the coefficients.
        horizon: total propagation distance.
        scale: lens scale s.
        low: first control point.
        high: last control point.
        seed: of the random values.
        device: where the tensors live.
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).to(device)

    lead = (members,) if members else ()
    spacing = (high - low) / max(basis - 1, 1)
    return Case(
        y=draw(*lead, rows, width) * spread + (low + high) / 2,
        theta=torch.tanh(draw(*lead, rows, width)),
        coefficients=draw(*lead, depth, width, basis) * strength,
        grad_y=draw(*lead, rows, width),
        grad_theta=draw(*lead, rows, width),
        centers=tuple(low + spacing * k for k in range(basis)) if basis > 1 else ((low + high) / 2,),
        sigma=ratio * spacing,
        length=horizon / depth,
        scale=scale,
    )


def far_case(position: float, ratio: float, device: str = "cpu") -> Case:
    """Rays that start at plus and minus `position`."""
    case = make_case(rows=6, width=33, depth=4, ratio=ratio, device=device)
    signs = torch.where(torch.arange(33, device=device) % 2 == 0, 1.0, -1.0)
    return replace(case, y=signs.expand(6, 33) * position)


def run(
    case: Case, dtype: torch.dtype = torch.float32, *, backend: str = "auto", backward: str = "recompute"
) -> tuple[Tensor, ...]:
    """Outputs and the gradients of every input, by the public operator, in the order of `NAMES`."""
    y, theta, lenses = (t.to(dtype).detach().requires_grad_() for t in (case.y, case.theta, case.coefficients))
    ends = lens_transport(y, theta, lenses, *case.optics(), backend=backend, backward=backward)
    incoming = (case.grad_y.to(dtype), case.grad_theta.to(dtype))
    grads = torch.autograd.grad(ends, (y, theta, lenses), incoming, materialize_grads=True)
    return (*(t.detach() for t in ends), *grads)


def naive(case: Case, dtype: torch.dtype = torch.float32) -> tuple[Tensor, ...]:
    """The same by the reference, in any precision."""
    return run(case, dtype, backend="reference")


def relative_errors(case: Case, results: tuple[Tensor, ...]) -> dict[str, float]:
    """Norm of every output's and gradient's error against float64, over the norm of the truth."""
    truth = naive(case, torch.float64)
    return {
        name: ((result.double() - exact).norm() / exact.norm()).item()
        for name, result, exact in zip(NAMES, results, truth, strict=True)
    }


def assert_twice_naive(case: Case, results: tuple[Tensor, ...], slack: float = 2.0) -> None:
    """Every output and gradient errs against float64 at most `slack` times as much as naive float32.

    A floor of one unit in the last place of the result's norm stands in where the naive error is zero by luck.
    """
    exact, plain = naive(case, torch.float64), naive(case)
    for name, result, rough, truth in zip(NAMES, results, plain, exact, strict=True):
        size = truth.norm().item()
        error, allowed = (result.double() - truth).norm().item(), (rough.double() - truth).norm().item()
        if not error <= slack * allowed + torch.finfo(torch.float32).eps * size:
            raise AssertionError(f"{name}: error {error:.2e}, naive {allowed:.2e}, size {size:.2e}")


def assert_far_tails(case: Case, results: tuple[Tensor, ...]) -> None:
    """Where rays fly far outside the control points: finite wherever the reference is, close at the data's scale."""
    plain = naive(case)
    strength = case.coefficients.abs().max().item() + 1.0
    for name, result, rough in zip(NAMES, results, plain, strict=True):
        good = torch.isfinite(rough)
        if not torch.equal(torch.isnan(result), torch.isnan(rough)):
            raise AssertionError(f"{name}: NaN in other places than the reference")
        if not torch.equal(torch.isfinite(result), good):
            raise AssertionError(f"{name}: infinite in other places than the reference")
        scale = max(1.0, rough[good].abs().max().item() if good.any() else 1.0)
        torch.testing.assert_close(result[good], rough[good], rtol=1e-5, atol=1e-6 * scale * strength, msg=name)


def poison(*shapes: tuple[int, ...], device: str = "cpu") -> None:
    """Fill memory with NaN and free it, so that reading what was never written shows."""
    for shape in shapes:
        for _ in range(8):
            torch.full(shape, float("nan"), device=device)
