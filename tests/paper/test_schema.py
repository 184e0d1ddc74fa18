import contextlib
import math

import pytest

from lln.core.canonical import canonical, digest, number, numbers
from lln.core.errors import InputError
from lln.paper.records import FAILED, Record, Timing

SPEC = {"kind": "rollout", "seeds": [0, 1], "options": {"depth": 5, "horizon": 0.25}}


def test_canonical_text_does_not_depend_on_the_order_of_keys_or_the_kind_of_sequence():
    assert canonical({"b": (1, 2.5), "a": None}) == canonical({"a": None, "b": [1, 2.5]}) == '{"a":null,"b":[1,2.5]}'


def test_floats_come_back_exactly():
    values = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, 2.0]
    record = Record.parse(Record(SPEC, {"mse": values}).line())
    assert [x.hex() for x in record.result["mse"]] == [x.hex() for x in values]


def test_what_is_not_finite_is_text_and_comes_back():
    line = Record(SPEC, {"mse": [math.inf, -math.inf, math.nan, 1.0]}).line()
    assert '["inf","-inf","nan",1.0]' in line
    low, high, neither, one = numbers(Record.parse(line).result["mse"])
    assert (low, high, one) == (math.inf, -math.inf, 1.0)
    assert math.isnan(neither)
    assert number(3) == 3.0


@pytest.mark.parametrize("bad", ["infinite", None, True, [1.0]])
def test_what_is_not_a_number_is_refused(bad):
    with pytest.raises(InputError, match="expected a number"):
        number(bad)


def test_the_digest_follows_every_part_of_the_specification():
    assert digest(SPEC) == Record(SPEC, {"mse": [1.0]}).digest
    assert len(digest(SPEC)) == 32
    others = [{**SPEC, "seeds": [1, 0]}, {**SPEC, "seeds": [0]}, {**SPEC, "options": {"depth": 5, "horizon": 0.5}}]
    assert len({digest(spec) for spec in [SPEC, *others]}) == 4


def test_a_line_is_the_record_and_nothing_of_times():
    done = Record(SPEC, {"mse": [1.0]})
    assert Record.parse(done.line()) == done
    failed = Record(SPEC, {}, FAILED, "MemoryError: too much")
    assert Record.parse(failed.line()) == failed
    assert not failed.done
    assert done.line().count("\n") == 1
    assert "seconds" not in done.line()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"digest":"ab', "JSON"),
        ("[]", "not a record"),
        ('{"spec":{"kind":"rollout"},"status":"maybe"}', "status"),
        ('{"digest":"0","spec":{"kind":"rollout"},"status":"done","result":{}}', "digest '0' is not"),
    ],
)
def test_a_line_that_is_no_record_is_refused(line, message):
    with pytest.raises(InputError, match=message):
        Record.parse(line)


def test_only_plain_data_is_recorded():
    with pytest.raises(InputError, match="plain data"):
        canonical({"a": {1, 2}})
    with pytest.raises(InputError, match="keys must be text"):
        canonical({1: 2})


def test_a_timing_comes_back():
    timing = Timing("ab", 1.5, {"torch": "2"})
    assert Timing.parse(timing.line()) == timing
    with pytest.raises(InputError, match="timing"):
        Timing.parse('{"digest":"ab"}')


@pytest.mark.parametrize("one", [Record(SPEC, {"mse": [1.5]}), Timing("ab", 1.5, {"torch": "2"})])
def test_one_changed_letter_of_a_line_is_noticed(one):
    line = one.line().rstrip("\n")
    missed = []
    for place, letter in enumerate(line):
        changed = line[:place] + chr(ord(letter) ^ 1) + line[place + 1 :]
        with contextlib.suppress(InputError):
            missed.append((place, type(one).parse(changed)))
    assert not missed


def test_a_line_from_before_there_were_checksums_is_read():
    content = {"digest": digest(SPEC), "spec": SPEC, "status": "done", "result": {"mse": [1.0]}}
    assert Record.parse(canonical(content)) == Record(SPEC, {"mse": [1.0]})


@pytest.mark.parametrize(
    "change", [{"digest": {}}, {"digest": []}, {"seconds": "soon"}, {"provenance": 3}, {"seconds": 10**400}]
)
def test_a_timing_of_other_kinds_is_refused(change):
    with pytest.raises(InputError, match="not a timing"):
        Timing.parse(canonical({"digest": "ab", "seconds": 1.5, "provenance": {}, **change}))
