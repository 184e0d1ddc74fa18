import errno

import pytest

from lln.core.errors import LONGEST, InputError, choice, did_you_mean, failure, printable, reason


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


def _raised_from(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "m.lln"), "m.lln: No space left on device; make room"),
        (MemoryError(), "out of memory; close"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried\nmore"), "out of memory (DefaultCPU"),
        (ImportError("x.so: failed to map segment from shared object"), "out of memory (x.so"),
        (SystemError("f returned NULL without setting an exception"), "out of memory (f returned"),
        (ImportError("read this\n\nOriginal error was: x.so: failed to map segment"), "out of memory (Original error"),
        (type("RuntimeException", (Exception,), {})("Exception: std::bad_alloc"), "out of memory (Exception: std::bad"),
        (_raised_from(ValueError("cannot read"), MemoryError()), "out of memory; close"),
        (OSError("the Dask scheduler was lost"), "OSError: the Dask scheduler was lost"),
    ],
)
def test_what_the_machine_could_not_do_is_one_sentence(error, sentence):
    assert failure(error).startswith(sentence)
    assert "\n" not in failure(error)


def test_another_error_is_a_bug_and_keeps_its_traceback():
    assert failure(RuntimeError("shapes do not match")) is None
    assert failure(ImportError("no module named x")) is None
    assert failure(_raised_from(ValueError("cannot read"), KeyError("x"))) is None


def test_control_characters_become_text_and_line_breaks_stay():
    assert printable("a\x1b]0;owned\x07\r\nb\x9b1m") == "a\\x1b]0;owned\\x07\\r\nb\\x9b1m"
    assert printable("µ ✓") == "µ ✓"
