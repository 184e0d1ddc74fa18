import os
import signal
import subprocess
import sys
import time

import pytest

from lln.core.errors import InputError
from lln.paper.records import (
    BLOCKS,
    FAILED,
    RECORDS,
    TIMES,
    Entry,
    Record,
    RecordStore,
    Timing,
    read_blocks,
    read_records,
    read_times,
)


def record(number, **more):
    return Record({"kind": "rollout", "number": number}, {"mse": [float(number)]}, **more)


def test_records_come_back_and_none_is_written_twice(tmp_path):
    with RecordStore(tmp_path) as store:
        assert store.add(record(1), Timing(record(1).digest, 0.5))
        assert not store.add(record(1), Timing(record(1).digest, 0.7))
        assert store.done == {record(1).digest}
    with RecordStore(tmp_path) as store:
        assert not store.add(record(1))
    assert (tmp_path / RECORDS).read_text() == record(1).line()
    assert read_times(tmp_path)[record(1).digest].seconds == 0.5


def test_nothing_there_is_nothing_done(tmp_path):
    assert read_records(tmp_path) == {}
    assert read_blocks(tmp_path) == {}
    assert read_times(tmp_path / "nowhere") == {}


@pytest.mark.parametrize("kept", [1, 10, -1])
def test_a_torn_last_line_is_ignored_and_cut_off_by_the_next_writer(tmp_path, kept):
    torn = record(2).line()[:kept]
    (tmp_path / RECORDS).write_text(record(1).line() + torn)
    assert set(read_records(tmp_path)) == {record(1).digest}
    with RecordStore(tmp_path) as store:
        assert store.done == {record(1).digest}
        store.add(record(3))
    assert (tmp_path / RECORDS).read_text() == record(1).line() + record(3).line()


def test_a_broken_line_in_the_middle_is_not_passed_over(tmp_path):
    (tmp_path / RECORDS).write_text(record(1).line() + "{broken}\n" + record(2).line())
    with pytest.raises(InputError, match=r"records\.jsonl, line 2"):
        read_records(tmp_path)


def test_a_failed_run_may_be_tried_again_and_its_success_stays(tmp_path):
    with RecordStore(tmp_path) as store:
        store.add(Record(record(1).spec, {}, FAILED, "boom"))
        assert store.done == frozenset()
        assert not read_records(tmp_path)[record(1).digest].done
        assert store.add(record(1))
        store.settle()
    assert (tmp_path / RECORDS).read_text() == record(1).line()


def test_settled_records_do_not_tell_in_which_order_runs_finished(tmp_path):
    for folder, order in (("a", range(9)), ("b", reversed(range(9)))):
        with RecordStore(tmp_path / folder) as store:
            for number in order:
                store.add(record(number))
            store.settle()
    assert (tmp_path / "a" / RECORDS).read_bytes() == (tmp_path / "b" / RECORDS).read_bytes()
    assert len(read_records(tmp_path / "a")) == 9


def test_blocks_are_replaced_one_by_one(tmp_path):
    with RecordStore(tmp_path) as store:
        store.set_blocks({"R0": [Entry("aa", "row")], "MT": [Entry("bb", "lens")]})
        store.set_blocks({"MT": [Entry("cc", "lens"), Entry("aa", "reference")]})
    assert read_blocks(tmp_path) == {
        "MT": [Entry("cc", "lens"), Entry("aa", "reference")],
        "R0": [Entry("aa", "row")],
    }


def test_there_is_one_writer_at_a_time(tmp_path):
    with RecordStore(tmp_path), pytest.raises(InputError, match="another study is writing here"):
        RecordStore(tmp_path)
    with RecordStore(tmp_path):
        pass


WRITER = """
import sys
from lln.paper.records import Record, RecordStore, Timing
with RecordStore(sys.argv[1]) as store:
    for number in range(10**6):
        record = Record({"kind": "rollout", "number": number}, {"mse": [number * 0.1] * 2000})
        store.add(record, Timing(record.digest, 0.0))
"""


def test_a_kill_at_any_moment_leaves_whole_records_and_readers_never_trip(tmp_path):
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)])
        before, deadline = len(read_records(tmp_path)), time.monotonic() + 30
        while len(read_records(tmp_path)) < before + 5 and time.monotonic() < deadline:
            pass
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        found = read_records(tmp_path)
        assert len(found) >= before + 5
        lines = (tmp_path / RECORDS).read_text().split("\n")[:-1]
        assert len(lines) == len(found), "a run was written twice"
    with RecordStore(tmp_path):
        assert (tmp_path / RECORDS).read_bytes().endswith(b"\n")
        assert (tmp_path / TIMES).read_bytes().endswith(b"\n")


@pytest.mark.parametrize("damage", [b"\xff", b"}", b'"', b"0"])
def test_damaged_files_are_refused_in_one_sentence(tmp_path, damage):
    with RecordStore(tmp_path) as store:
        store.add(record(1), Timing(record(1).digest, 0.5))
        store.set_blocks({"R0": [Entry("aa", "row")]})
    for name, read in ((RECORDS, read_records), (TIMES, read_times), (BLOCKS, read_blocks)):
        whole = (tmp_path / name).read_bytes()
        for place in (1, len(whole) // 3, len(whole) // 2, len(whole) - 9):
            (tmp_path / name).write_bytes(whole[:place] + damage + whole[place + 1 :])
            if whole[place : place + 1] != damage:
                with pytest.raises(InputError, match=name):
                    read(tmp_path)
        (tmp_path / name).write_bytes(whole)


def test_a_line_nested_too_deeply_is_refused(tmp_path):
    deep = '{"digest": "a", "spec": {"kind": ' + "[" * 900 + "]" * 900 + '}, "status": "done", "result": {}}\n'
    (tmp_path / "records.jsonl").write_text(deep)
    with pytest.raises(InputError, match=r"records\.jsonl, line 1: "):
        read_records(tmp_path)
