import os
import random
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

import lln.paper
from lln.core.workers import call
from lln.paper.records import RecordStore, read_records
from lln.paper.reproduce import run_study
from lln.paper.spec import load_study

SMOKE = Path(lln.paper.__file__).parent / "smoke" / "rollout.toml"
COMMAND = (sys.executable, "-c", "from lln.cli import main; main()", "reproduce", "--no-report", "--jobs", "2")


class Inline:
    running = 0

    def close(self):
        pass

    def run(self, function, tasks):
        for task in tasks:
            yield call(function, task)


def start(folder):
    words = [*COMMAND, "--study", str(SMOKE), "--out", str(folder)]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def stop_in_the_middle(folder, moment, sign):
    """End a study once `moment` more records are there, a little later than that, or let it end."""
    before, process = len(read_records(folder)), start(folder)
    while len(read_records(folder)) < before + moment and process.poll() is None:
        time.sleep(0.01)
    time.sleep(random.random() * 0.05)
    process.send_signal(sign)
    process.communicate(timeout=60)
    return read_records(folder)


def uninterrupted(folder):
    with RecordStore(folder) as store, closing(Inline()) as pool:
        run_study(load_study(SMOKE), store, pool)
        store.settle()
    return (folder / "records.jsonl").read_bytes()


def check(tmp_path, moments, signs):
    whole = uninterrupted(tmp_path / "whole")
    folder, kept = tmp_path / "stopped", {}
    for moment, sign in zip(moments, signs, strict=True):
        found = stop_in_the_middle(folder, moment, sign)
        assert found.items() >= kept.items(), "what was finished is lost"
        kept = found
    process = start(folder)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert (folder / "records.jsonl").read_bytes() == whole
    assert (folder / "blocks.json").read_bytes() == (tmp_path / "whole" / "blocks.json").read_bytes()


def test_a_killed_study_resumes_and_ends_as_if_nothing_had_happened(tmp_path):
    check(tmp_path, [3], [signal.SIGKILL])


@pytest.mark.slow
def test_ten_kills_at_random_moments(tmp_path):
    seed = int.from_bytes(os.urandom(4), "big")
    print("seed of the moments:", seed)
    random.seed(seed)
    check(
        tmp_path,
        [random.choice((0, 1, 1, 2, 3)) for _ in range(10)],
        [random.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGINT)) for _ in range(10)],
    )


def test_a_broken_study_file_is_refused_before_anything_runs(tmp_path):
    (tmp_path / "broken.toml").write_text(SMOKE.read_text().replace("advecdiff-32", "advecdif-32"))
    words = [*COMMAND, "--study", str(tmp_path / "broken.toml"), "--out", str(tmp_path / "out")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "broken.toml: systems: unknown system 'advecdif-32'; did you mean 'advecdiff-32'?" in done.stderr
    assert not (tmp_path / "out").exists()
