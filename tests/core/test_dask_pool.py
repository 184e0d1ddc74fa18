import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing, contextmanager

import pytest

from lln.core.errors import InputError
from lln.core.workers import DaskPool, Task, call
from lln.paper.records import RecordStore
from lln.paper.reproduce import run_study
from lln.paper.spec import paper_studies

distributed = pytest.importorskip("distributed")


@contextmanager
def cluster(folder, workers=2):
    """A scheduler and its workers as processes of their own; yields its address and the worker processes."""
    file = folder / "scheduler.json"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}

    def launch(module, *words):
        command = [sys.executable, "-m", f"distributed.cli.{module}", *words]
        return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    here = ("--host", "127.0.0.1", "--no-dashboard")
    scheduler = launch("dask_scheduler", *here, "--port", "0", "--scheduler-file", str(file))
    options = ("--nthreads", "1", "--no-nanny", "--scheduler-file", str(file), "--local-directory", str(folder))
    pool = [launch("dask_worker", *here, *options) for _ in range(workers)]
    try:
        address = address_in(file)
        with distributed.Client(address, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=60)
        yield address, pool
    finally:
        for process in (*pool, scheduler):
            process.kill()
            process.wait()


def address_in(file, seconds=60.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            return json.loads(file.read_text())["address"]
        except (OSError, ValueError):  # not there yet, or half written
            time.sleep(0.05)
    raise TimeoutError("the scheduler did not come up")


def test_every_task_comes_back_also_those_of_a_worker_that_is_killed(tmp_path):
    with cluster(tmp_path) as (address, workers), closing(DaskPool(address)) as pool:
        found = {}
        # Functions must be importable by the workers: here the standard library's.
        for finished in pool.run(time.sleep, [Task(str(number), 0.3) for number in range(12)]):
            found[finished.key] = finished
            if len(found) == 2:
                assert pool.running >= 1
                os.kill(workers[0].pid, signal.SIGKILL)
        assert sorted(found, key=int) == [str(number) for number in range(12)]
        assert all(finished.error is None for finished in found.values())
        assert all(finished.seconds >= 0.3 for finished in found.values())
        failed = next(iter(pool.run(json.loads, [Task("bad", "{")])))
        assert "JSONDecodeError" in failed.error


class Inline:
    running = 0

    def run(self, function, tasks):
        for task in tasks:
            yield call(function, task)


def test_a_study_on_two_workers_gives_the_same_bytes_though_one_is_killed(tmp_path):
    study = paper_studies("smoke")["SMOKE"]
    with RecordStore(tmp_path / "inline") as store:
        run_study(study, store, Inline())
        store.settle()
    killed = []
    with (
        cluster(tmp_path) as (address, workers),
        closing(DaskPool(address)) as pool,
        RecordStore(tmp_path / "dask") as store,
    ):

        def kill_one(progress):
            # While both workers hold runs and others still wait.
            if progress.done >= 3 and progress.done + 5 < progress.total and not killed:
                os.kill(workers[0].pid, signal.SIGKILL)
                killed.append(workers[0].wait())

        progress = run_study(study, store, pool, kill_one)
        store.settle()
    assert killed == [-signal.SIGKILL]
    assert progress.failed == 0
    for name in ("records.jsonl", "blocks.json"):
        assert (tmp_path / "inline" / name).read_bytes() == (tmp_path / "dask" / name).read_bytes()


def test_no_scheduler_there(monkeypatch):
    monkeypatch.setattr("lln.core.workers._CONNECT_SECONDS", 1)
    with pytest.raises(InputError, match="no Dask scheduler answers"):
        list(DaskPool("tcp://127.0.0.1:9").run(time.sleep, [Task("a", 0.0)]))


def test_a_scheduler_that_is_lost_ends_the_work_in_one_sentence(tmp_path, capfd):
    with cluster(tmp_path) as (address, _), closing(DaskPool(address)) as pool:
        work = pool.run(time.sleep, [Task(str(number), 0.2) for number in range(40)])
        assert next(work).error is None
        with distributed.Client(address, set_as_default=False) as client:
            process = client.run_on_scheduler(os.getpid)
        os.kill(process, signal.SIGKILL)
        with pytest.raises(OSError, match="was lost; what had finished is kept"):
            list(work)
    assert "Traceback" not in capfd.readouterr().err
