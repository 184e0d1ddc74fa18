import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from lln.core.errors import InputError
from lln.core.workers import LocalPool, Task


def square_or_worse(payload):
    if payload == "raise":
        raise ValueError("this one is wrong")
    if payload == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if payload == "leave":
        os._exit(3)
    return payload**2


def results(pool, payloads):
    tasks = [Task(str(index), payload) for index, payload in enumerate(payloads)]
    return {finished.key: finished for finished in pool.run(square_or_worse, tasks)}


def test_every_task_comes_back_once_and_a_failed_one_is_a_result():
    with LocalPool(2) as pool:
        found = results(pool, [2, "raise", 3, "die", "leave", 4, 5])
        survivors = [worker.process.pid for worker in pool._workers]
        assert results(pool, [6])["0"].value == 36
        assert [worker.process.pid for worker in pool._workers] == survivors, "workers stay between calls"
    assert pool._workers == []
    assert {key: one.value for key, one in found.items() if one.error is None} == {"0": 4, "2": 9, "5": 16, "6": 25}
    assert "ValueError: this one is wrong" in found["1"].error
    assert "SIGKILL" in found["3"].error
    assert "exit code 3" in found["4"].error


def test_one_worker_keeps_the_order():
    tasks = [Task(str(number), number) for number in range(4)]
    with LocalPool(1) as pool:
        assert [finished.value for finished in pool.run(square_or_worse, tasks)] == [0, 1, 4, 9]


def test_no_tasks_and_no_workers():
    assert results(LocalPool(1), []) == {}
    with pytest.raises(InputError, match="jobs"):
        LocalPool(0)


def test_a_crew_left_in_the_middle_leaves_no_process_behind():
    pool = LocalPool(2)
    running = pool.run(time.sleep, [Task(str(number), 0.0 if number == 0 else 60.0) for number in range(3)])
    next(running)
    workers = [worker.process for worker in pool._workers]
    assert pool.running == 2
    running.close()
    pool.close()
    assert [process.is_alive() for process in workers] == [False, False]


PARENT = """
    import sys, time
    from pathlib import Path
    sys.path.insert(0, sys.argv[2])
    from sleeper import sleep_long
    from lln.core.workers import LocalPool, Task

    if __name__ == "__main__":
        for _ in LocalPool(2).run(sleep_long, [Task(str(n), sys.argv[1]) for n in range(2)]):
            pass
"""
SLEEPER = """
    import os, time
    from pathlib import Path

    def sleep_long(folder):
        (Path(folder) / str(os.getpid())).touch()
        time.sleep(60)
"""


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_workers_leave_when_the_parent_is_gone(tmp_path, sign):
    notes = tmp_path / "notes"
    notes.mkdir()
    (tmp_path / "parent.py").write_text(textwrap.dedent(PARENT))
    (tmp_path / "sleeper.py").write_text(textwrap.dedent(SLEEPER))
    parent = subprocess.Popen(
        [sys.executable, str(tmp_path / "parent.py"), str(notes), str(tmp_path)], stderr=subprocess.DEVNULL
    )
    assert eventually(lambda: len(list(notes.iterdir())) == 2)
    os.kill(parent.pid, sign)
    assert parent.wait(timeout=120) != 0
    assert eventually(lambda: not any(alive(int(note.name)) for note in notes.iterdir()))


def alive(pid):
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def eventually(condition, seconds=30.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False
