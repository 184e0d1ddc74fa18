"""The gate: no speed is reported while the operator breaks its contract."""

from __future__ import annotations

from collections.abc import Iterator

from lln.ops.cpu import backend as cpu_backend
from lln.ops.triton import backend as triton_backend
from tests.contracts.operator_cases import (
    FAR,
    SIZES,
    Case,
    assert_far_tails,
    assert_twice_naive,
    far_case,
    make_case,
    poison,
    run,
)


class BrokenOperatorError(RuntimeError):
    """The operator fails its own tests, so its speed means nothing."""


def backends_on(device: str) -> tuple[str, ...]:
    """The fused backends that can serve on `device`, the fastest first."""
    first, missing = (
        ("triton", triton_backend.unavailable()) if device == "cuda" else ("cpu", cpu_backend.unavailable())
    )
    return (first, "eager") if missing is None else ("eager",)


def failures(device: str) -> list[str]:
    """What the backends on `device` get wrong, a sentence each: outputs and gradients against float64."""
    found = []
    for backend in backends_on(device):
        for label, case, far, backward in _trials(device):
            poison(tuple(case.y.shape), tuple(case.coefficients.shape), device=device)
            results = run(case, backend=backend, backward=backward)
            try:
                (assert_far_tails if far else assert_twice_naive)(case, results)
            except AssertionError as error:
                found.append(f"{backend}, {label}: {error}")
    return found


def pass_or_raise(device: str) -> None:
    """Raise `BrokenOperatorError` unless every backend on `device` keeps the contract."""
    found = failures(device)
    if found:
        rest = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise BrokenOperatorError(f"the operator fails its tests, so no speed is measured: {found[0]}{rest}")


def _trials(device: str) -> Iterator[tuple[str, Case, bool, str]]:
    """(label, case, whether it is one of far tails, backward)."""
    for backward in ("recompute", "inverse"):
        for size in SIZES:
            yield f"(B, h, D, K, r) = {size}, {backward}", make_case(*size, device=device), False, backward
        paper = make_case(64, 128, 40, 12, spread=1.0, strength=0.02, device=device)
        yield f"a stack of the paper's size, {backward}", paper, False, backward
    for position, ratio in FAR:
        yield f"rays at {position:g}, r = {ratio}", far_case(position, ratio, device), True, "recompute"
