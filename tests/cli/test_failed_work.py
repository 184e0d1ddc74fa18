import os
import signal
import subprocess
import sys

LOADING = """
import sys
class NoRoom:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            raise ImportError("_typer.so: failed to map segment from shared object")
sys.meta_path.insert(0, NoRoom())
from lln.cli import main
main()
"""


def test_a_lack_of_memory_while_the_command_is_loaded_is_one_sentence():
    done = subprocess.run([sys.executable, "-c", LOADING, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("lln: out of memory (_typer.so: failed to map segment")
    assert done.stderr.count("\n") == 1


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


SLOW_TO_END = """
import atexit, time
from lln.cli import app
def end():
    print("ending", flush=True)
    time.sleep(60)
atexit.register(end)
def work():
    print("at work", flush=True)
    time.sleep(60)
app.app = work
app.main()
"""


def test_a_second_interrupt_while_the_interpreter_ends_shows_no_traceback():
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_TO_END], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "at work\n"
    os.kill(process.pid, signal.SIGINT)
    assert process.stdout.readline() == "ending\n"
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == "lln: interrupted again, so it leaves at once\n"


DEAF = """
import time
from lln.cli import app
class Deaf:
    def __del__(self):
        print("at work", flush=True)
        time.sleep(60)
def work():
    Deaf()
    print("going on", flush=True)
    time.sleep(60)
app.app = work
app.main()
"""


def test_an_interrupt_that_python_cannot_raise_comes_again():
    process = subprocess.Popen([sys.executable, "-c", DEAF], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "at work\n"
    os.kill(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert output in ("", "going on\n")
    assert errors == ""


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
