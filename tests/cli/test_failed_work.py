import errno
import os
import signal
import subprocess
import sys

import pytest

from lln.cli.app import failure


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "m.lln"), "m.lln: No space left on device; make room"),
        (MemoryError(), "out of memory; close"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried\nmore"), "out of memory (DefaultCPU"),
        (ImportError("x.so: failed to map segment from shared object"), "out of memory (x.so"),
        (SystemError("f returned NULL without setting an exception"), "out of memory (f returned"),
        (OSError("the Dask scheduler was lost"), "OSError: the Dask scheduler was lost"),
    ],
)
def test_what_the_machine_could_not_do_is_one_sentence(error, sentence):
    assert failure(error).startswith(sentence)
    assert "\n" not in failure(error)


def test_another_error_is_a_bug_and_keeps_its_traceback():
    assert failure(RuntimeError("shapes do not match")) is None
    assert failure(ImportError("no module named x")) is None


STUBBORN = """
import sys, time
import lln.cli.app as app
def work():
    try:
        print("at work", flush=True)
        time.sleep(60)
    finally:
        print("tidying up", flush=True)
        time.sleep(60)
app.app = work
app.main()
"""


def test_a_second_interrupt_leaves_at_once_and_without_a_traceback():
    process = subprocess.Popen(
        [sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "at work\n"
    os.kill(process.pid, signal.SIGINT)
    assert process.stdout.readline() == "tidying up\n"
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == "lln: interrupted again, so it leaves at once\n"
