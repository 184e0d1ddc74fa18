"""What torch may do to the transport, as one list of checks that every backend passes.

`python -m tests.contracts.operator_checks` prints the table of docs/operator.md.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

from lln.ops import backends, lens_transport
from tests.contracts.operator_cases import make_case

Function = Callable[..., tuple[Tensor, Tensor]]


class Subject:
    """A small stack on one backend and device, beside the reference."""

    def __init__(self, backend: str, device: str = "cpu") -> None:
        self.case = make_case(rows=2, width=3, depth=3, basis=4, strength=0.6)
        self.backend, self.device = backend, device

    def operands(self, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
        case = self.case
        y, theta, coefficients = (t.to(self.device, dtype) for t in (case.y, case.theta, case.coefficients))
        return y, theta, coefficients

    def run(self, y: Tensor, theta: Tensor, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        return lens_transport(y, theta, coefficients, *self.case.optics(), backend=self.backend)

    def reference(self, y: Tensor, theta: Tensor, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        return lens_transport(y, theta, coefficients, *self.case.optics(), backend="reference")


def close(got: object, want: object) -> None:
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-11)


def scalar(function: Function, y: Tensor, rest: tuple[Tensor, Tensor]) -> Tensor:
    ends = function(y, *rest)
    return (ends[0].sin() * ends[1]).sum()


def check_gradcheck(subject: Subject) -> None:
    assert gradcheck(subject.run, [t.requires_grad_() for t in subject.operands()])


def check_gradgradcheck(subject: Subject) -> None:
    assert gradgradcheck(subject.run, [t.requires_grad_() for t in subject.operands()])


def check_third_derivative(subject: Subject) -> None:
    y, *rest = subject.operands()

    def third(function: Function) -> Tensor:
        value = y.clone().requires_grad_()
        first = torch.autograd.grad(scalar(function, value, tuple(rest)), value, create_graph=True)[0]
        second = torch.autograd.grad(first.square().sum(), value, create_graph=True)[0]
        return torch.autograd.grad(second.square().sum(), value)[0]

    close(third(subject.run), third(subject.reference))


def check_jvp(subject: Subject) -> None:
    operands = subject.operands()
    tangents = tuple(torch.randn_like(t) for t in operands)
    _, got = jvp(subject.run, operands, tangents)
    step = 1e-6
    ahead = subject.run(*(x + step * v for x, v in zip(operands, tangents, strict=True)))
    behind = subject.run(*(x - step * v for x, v in zip(operands, tangents, strict=True)))
    for tangent, a, b in zip(got, ahead, behind, strict=True):
        torch.testing.assert_close(tangent, (a - b) / (2 * step), rtol=1e-6, atol=1e-7)
    close(got, jvp(subject.reference, operands, tangents)[1])


def check_dual_tensors_without_grad(subject: Subject) -> None:
    y, *rest = subject.operands()
    with torch.no_grad(), forward_ad.dual_level():
        dual = forward_ad.make_dual(y, torch.ones_like(y))
        got = forward_ad.unpack_dual(subject.run(dual, *rest)[1]).tangent
        want = forward_ad.unpack_dual(subject.reference(dual, *rest)[1]).tangent
        assert got is not None
        close(got, want)


def check_vmap(subject: Subject) -> None:
    y, theta, coefficients = subject.operands()
    close(vmap(lambda q, t: subject.run(q, t, coefficients))(y, theta), subject.reference(y, theta, coefficients))
    stacks = torch.stack([coefficients, 2 * coefficients])
    want = torch.stack([subject.reference(y, theta, a)[0] for a in stacks])
    close(vmap(lambda a: subject.run(y, theta, a)[0])(stacks), want)
    assert vmap(lambda q: subject.run(q, theta[0], coefficients)[0])(y[:0]).shape == (0, 3)


def check_vmap_of_grad(subject: Subject) -> None:
    y, *rest = subject.operands()
    pair = (rest[0][0], rest[1])
    got = vmap(grad(lambda q: scalar(subject.run, q, pair)))(y)
    close(got, vmap(grad(lambda q: scalar(subject.reference, q, pair)))(y))


def check_jacfwd(subject: Subject) -> None:
    y, *rest = subject.operands()
    with torch.no_grad():
        close(jacfwd(lambda q: subject.run(q, *rest))(y), jacfwd(lambda q: subject.reference(q, *rest))(y))


def check_jacrev(subject: Subject) -> None:
    y, *rest = subject.operands()
    close(jacrev(lambda q: subject.run(q, *rest))(y), jacrev(lambda q: subject.reference(q, *rest))(y))


def check_hessian(subject: Subject) -> None:
    y, *rest = subject.operands()
    want = hessian(lambda q: scalar(subject.reference, q, tuple(rest)))(y)
    close(hessian(lambda q: scalar(subject.run, q, tuple(rest)))(y), want)
    close(jacrev(jacrev(lambda q: scalar(subject.run, q, tuple(rest))))(y), want)
    close(torch.autograd.functional.hessian(lambda q: scalar(subject.run, q, tuple(rest)), y), want)


def check_vjp(subject: Subject) -> None:
    operands = subject.operands()
    cotangents = tuple(torch.ones_like(operands[0]) for _ in range(2))
    close(vjp(subject.run, *operands)[1](cotangents), vjp(subject.reference, *operands)[1](cotangents))


def check_compile(subject: Subject) -> None:
    operands = [t.requires_grad_() for t in subject.operands()]
    compiled = torch.compile(subject.run, fullgraph=True, backend="aot_eager")  # the capture; no C++ compiler needed
    got, want = compiled(*operands), subject.reference(*operands)
    close(got, want)
    close(
        torch.autograd.grad(got[0].sin().sum(), operands, materialize_grads=True),
        torch.autograd.grad(want[0].sin().sum(), operands, materialize_grads=True),
    )


def check_compiled_jvp(subject: Subject) -> None:
    y, *rest = subject.operands()

    def tangent(q: Tensor) -> Tensor:
        out: Tensor = jvp(lambda z: subject.run(z, *rest)[1], (q,), (torch.ones_like(q),))[1]
        return out

    close(torch.compile(tangent, backend="aot_eager")(y), tangent(y))


class _Module(torch.nn.Module):
    def __init__(self, subject: Subject) -> None:
        super().__init__()
        self.subject = subject
        self.coefficients = torch.nn.Parameter(subject.operands()[2])

    def forward(self, y: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
        return self.subject.run(y, theta, self.coefficients)


def check_export(subject: Subject) -> None:
    y, theta, coefficients = subject.operands()
    rows = torch.export.Dim("rows")
    program = torch.export.export(_Module(subject), (y, theta), dynamic_shapes={"y": {0: rows}, "theta": {0: rows}})
    again = torch.cat([y, y + 0.1]), torch.cat([theta, theta])
    close(program.module()(*again), subject.reference(*again, coefficients))


def check_jit_trace(subject: Subject) -> None:
    y, theta, coefficients = subject.operands()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(_Module(subject), (y, theta))
        stored = io.BytesIO()
        torch.jit.save(traced, stored)
        stored.seek(0)
        for module in (traced, torch.jit.load(stored)):
            close(module(y + 0.3, theta), subject.reference(y + 0.3, theta, coefficients))


def check_autocast(subject: Subject) -> None:
    operands = subject.operands(torch.float32)
    with torch.autocast(subject.device, dtype=torch.bfloat16):
        got = subject.run(*operands)
    torch.testing.assert_close(got, subject.reference(*operands), rtol=1e-5, atol=1e-5)


def check_half_precision(subject: Subject) -> None:
    for dtype in (torch.float16, torch.bfloat16):
        operands = subject.operands(dtype)
        centers = torch.tensor(subject.case.centers, device=subject.device, requires_grad=True)
        optics = subject.case.optics()[1:]
        for points in (subject.case.centers, centers):
            ends = lens_transport(*operands, points, *optics, backend=subject.backend)
            assert ends[0].dtype == ends[1].dtype == dtype


def check_gradients_of_the_optics(subject: Subject) -> None:
    operands = subject.operands()
    optics = [torch.tensor(v, dtype=torch.float64, device=subject.device) for v in subject.case.optics()]
    assert gradcheck(
        lambda *values: lens_transport(*operands, *values, backend=subject.backend),
        [v.requires_grad_() for v in optics],
    )
    sigma = grad(lambda s: lens_transport(*operands, optics[0].detach(), s, *subject.case.optics()[2:])[1].sum())
    assert sigma(optics[1].detach()).abs() > 1e-6


def check_empty_stacks(subject: Subject) -> None:
    y, theta, coefficients = (t.requires_grad_() for t in subject.operands())
    ends = subject.run(y, theta, coefficients[:0])
    close(ends, (y, theta))
    close(torch.autograd.grad(ends[0].sin().sum(), y)[0], y.cos())
    assert subject.run(y[:0], theta[:0], coefficients)[0].shape == (0, 3)


CHECKS: dict[str, Callable[[Subject], None]] = {
    "gradcheck (float64)": check_gradcheck,
    "gradgradcheck (float64)": check_gradgradcheck,
    "third derivatives": check_third_derivative,
    "torch.func.jvp, against finite differences": check_jvp,
    "dual tensors under no_grad": check_dual_tensors_without_grad,
    "torch.func.vmap, also over zero rows": check_vmap,
    "vmap(grad)": check_vmap_of_grad,
    "torch.func.jacfwd": check_jacfwd,
    "torch.func.jacrev": check_jacrev,
    "hessian (torch.func, jacrev of jacrev, autograd.functional)": check_hessian,
    "torch.func.vjp": check_vjp,
    "torch.compile(fullgraph=True), with gradients": check_compile,
    "torch.compile of jvp (by the reference)": check_compiled_jvp,
    "torch.export with a dynamic batch": check_export,
    "torch.jit.trace, save and load": check_jit_trace,
    "autocast": check_autocast,
    "float16 and bfloat16 stay what they are": check_half_precision,
    "gradients of centers, sigma, length and scale (by the reference)": check_gradients_of_the_optics,
    "no layers, no rows": check_empty_stacks,
}


def table(backends: list[str], device: str = "cpu") -> str:
    """The checks and their outcomes as a table in Markdown."""
    lines = [f"| what torch does | {' | '.join(backends)} |", f"|---|{'---|' * len(backends)}"]
    for name, check in CHECKS.items():
        cells = []
        for backend in backends:
            check(Subject(backend, device))
            cells.append("yes")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    cuda = torch.cuda.is_available()
    print(table(["triton"], "cuda") if cuda else table([name for name in backends.registry if name != "triton"]))
