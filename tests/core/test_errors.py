import pytest

from lln.core.errors import LONGEST, InputError, choice, did_you_mean, reason


def test_choice_returns_a_known_name():
    assert choice("system", "burgers-32", {"burgers-32": 1}) == "burgers-32"


def test_choice_names_the_nearest():
    with pytest.raises(InputError) as caught:
        choice("system", "lorentz-28", ["lorenz-24", "lorenz-28"])
    expected = "unknown system 'lorentz-28'; did you mean 'lorenz-28'? (known: 'lorenz-24', 'lorenz-28')"
    assert str(caught.value) == expected


def test_far_names_list_all():
    assert did_you_mean("zzz", iter(["a", "b"])) == "; expected one of 'a', 'b'"


def test_a_message_is_one_line_fit_for_a_terminal():
    assert str(InputError("column 'a\nb\x1b[31m\u202e' of é")) == "column 'a\\nb\\x1b[31m\\u202e' of é"
    long = str(InputError("begin " + "x" * 10_000 + " end"))
    assert len(long) <= LONGEST + 5
    assert long.startswith("begin x")
    assert long.endswith("x end")


def test_what_a_library_said_is_a_part_of_a_sentence():
    assert reason(ValueError("first\nsecond")) == "first"
    assert reason(KeyError()) == "KeyError"
    assert len(reason(ValueError("x" * 1000))) == 203
