import pytest

from lln.core import memory
from lln.core.errors import InputError


def test_what_fits_is_let_through():
    memory.afford("a rollout", (10, 3))
    memory.afford("a rollout", (0, 10**30))
    assert memory.available() > 2**26


def test_what_cannot_fit_is_refused_before_it_is_made():
    said = r"^a rollout of 9 steps needs [\d,]+\.\d GiB of memory, and [\d,]+\.\d GiB are free; ask for fewer steps"
    with pytest.raises(InputError, match=said):
        memory.afford("a rollout of 9 steps", (memory.available() // 8,), copies=2)
    with pytest.raises(InputError, match=r"needs \d\.\de\+\d+ GiB"):
        memory.afford("a rollout", (10**30,))
