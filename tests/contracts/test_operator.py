"""Every backend under everything torch does to functions, and the page that says so."""

from pathlib import Path

import pytest

from lln.ops import backends
from lln.ops.cpu import backend as cpu_backend
from tests.contracts.operator_checks import CHECKS, Subject

HERE = [
    pytest.param("cpu", marks=pytest.mark.skipif(cpu_backend.unavailable() is not None, reason="no CPU kernels here")),
    "eager",
    "reference",
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("backend", HERE)
def test_what_torch_does(backend, check):
    CHECKS[check](Subject(backend))


def test_the_page_lists_every_check_and_backend():
    page = (Path(__file__).parents[2] / "docs" / "operator.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert rows[0] == f"| feature of torch | {' | '.join(backends.registry)} |"
    assert [row.split(" | ")[0][2:] for row in rows[1:]] == list(CHECKS)
