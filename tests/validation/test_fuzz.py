import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.validation

ROOT = Path(__file__).resolve().parents[2]
CASES = 100


def python(*words, check=True):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]), "OMP_NUM_THREADS": "1"}
    environment |= {"PYTHONHASHSEED": "0", "COLUMNS": "80", "TERM": "dumb"}
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=900
    )
    assert not check or done.returncode == 0, done.stderr[-3000:]
    return done


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    done = python("-m", "validation.fuzz.short", str(CASES), "1", str(folder))
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {row["reader"]: row for row in found}


READERS = [
    *("npy", "npz", "CSV", "HDF5", "NetCDF", "Zarr"),
    *("model", "network", "checkpoint", "study", "records", "command"),
]


@pytest.mark.parametrize("reader", READERS)
def test_bad_input_gets_a_result_or_a_sentence(rows, reader):
    row = rows[reader]
    assert row["texts"] == []
    assert row["cases"] == row["refused"] + row["accepted"]
    assert row["cases"] >= CASES * 0.9  # hypothesis may stop early where it has seen everything
    assert row["refused"] > 0
    assert row["accepted"] > 0
    assert row["past"] >= row["cases"] / 3


def judged(deed, imports="pass"):
    """What the guard says of a reader that does this."""
    program = (
        "import json, sys; from pathlib import Path; from lln.core.errors import InputError; "
        f"from validation.fuzz import guard; import pickle, os, subprocess; {imports}; "
        "guard.limited(1 << 28); "
        f"said = guard.judge(lambda path: {deed}, Path('case'), 1.0); "
        "print(json.dumps([said.kind, said.text]))"
    )
    return python("-c", program, check=False)


@pytest.mark.parametrize(
    ("deed", "text"),
    [
        ("{}['missing']", "KeyError"),
        ("bytearray(1 << 40)", "MemoryError"),
        ("pickle.loads(b'cos\\nsystem\\n(S\"true\"\\ntR.')", "code was run: pickle.find_class"),
        ("os.system('true')", "code was run: os.system"),
        ("subprocess.run(['true'])", "code was run: subprocess.Popen"),
        ("exec(compile('1', '<header>', 'exec'))", "code was run: exec"),
        ("open('/tmp/lln-fuzz-stray', 'w')", "PermissionError"),
    ],
)
def test_the_guard_notices(deed, text):
    kind, said = json.loads(judged(deed).stdout)
    assert kind == "finding"
    assert said.startswith(text)


def test_the_guard_lets_results_and_sentences_pass():
    assert json.loads(judged("1").stdout) == ["accepted", ""]
    refusing = judged("refuse()", "exec(\"def refuse():\\n raise InputError('one line')\")")
    assert json.loads(refusing.stdout) == ["refused", ""]


def test_memory_that_is_asked_for_and_then_refused_is_a_finding():
    define = (
        "def refuse():\\n try:\\n  bytearray(1 << 40)\\n except MemoryError as e:\\n  raise InputError('no') from e"
    )
    kind, said = json.loads(judged("refuse()", f'exec("{define}")').stdout)
    assert (kind, said.splitlines()[0]) == ("finding", "memory was asked for before it was refused")


def test_a_hang_ends_the_worker():
    assert judged("all(not x for x in iter(int, 1))").returncode == -signal.SIGALRM  # a loop that takes no memory
