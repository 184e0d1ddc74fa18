import pytest

from lln.core.errors import InputError, choice, did_you_mean


def test_choice_returns_a_known_name():
    assert choice("system", "burgers-32", {"burgers-32": 1}) == "burgers-32"


def test_choice_names_the_nearest():
    with pytest.raises(InputError) as caught:
        choice("system", "lorentz-28", ["lorenz-24", "lorenz-28"])
    expected = "unknown system 'lorentz-28'; did you mean 'lorenz-28'? (known: 'lorenz-24', 'lorenz-28')"
    assert str(caught.value) == expected


def test_far_names_list_all():
    assert did_you_mean("zzz", iter(["a", "b"])) == "; expected one of 'a', 'b'"
