import os
import signal
import subprocess
import sys

import pytest

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


NO_MESSAGE = """
import sys
from lln.cli import app, command
def work():
    raise MemoryError
if "loading" in sys.argv:
    sys.modules["lln.cli.app"] = None
    import lln.core.errors
    def no_room(error):
        raise MemoryError
    lln.core.errors.failure = no_room
else:
    app.app = work
sys.stderr = None
command()
"""


@pytest.mark.parametrize("when", ["loading", "working"])
def test_a_lack_of_memory_is_said_even_if_python_cannot_write_its_own_messages(when):
    done = subprocess.run([sys.executable, "-c", NO_MESSAGE, when], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("lln: out of memory")
    assert done.stderr.count("\n") == 1


# Work that goes on after an interrupt: while it tidies up, while the interpreter ends, where Python cannot raise it.
STUBBORN = """
def work():
    try:
        at_work()
    finally:
        print("going on", flush=True)
        rest()
"""
SLOW_TO_END = """
@atexit.register
def end():
    print("going on", flush=True)
    rest()
def work():
    at_work()
"""
DEAF = """
class Deaf:
    def __del__(self):
        at_work()
def work():
    Deaf()
    rest()
"""
# Short sleeps, because Python handles a signal that arrives just before a sleep when the sleep ends.
REST = """
import time
def rest():
    for _ in range(6000):
        time.sleep(0.01)
"""
COMMAND = """
import atexit
from lln.cli import app, main
def at_work():
    print("at work", flush=True)
    rest()
{work}
app.app = work
main()
"""

DONE = """
from lln.cli import app, command
app.app = lambda: None
command()
print("done", flush=True)
rest()
"""


EXHAUSTED = """
from lln.cli import app, command
def work():
    raise MemoryError
app.app = work
try:
    command()
finally:
    print("raised")
"""


def interrupted(work):
    process = subprocess.Popen(
        [sys.executable, "-c", REST + COMMAND.format(work=work)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "at work\n"
    os.kill(process.pid, signal.SIGINT)
    return process


@pytest.mark.parametrize("work", [STUBBORN, SLOW_TO_END], ids=["tidies up", "interpreter ends"])
def test_a_second_interrupt_leaves_at_once_and_without_a_traceback(work):
    process = interrupted(work)
    assert process.stdout.readline() == "going on\n"
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == "lln: interrupted again, so it leaves at once\n"


def test_an_interrupt_after_the_work_leaves_without_a_traceback():
    process = subprocess.Popen(
        [sys.executable, "-c", REST + DONE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "done\n"
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == ""


def test_without_memory_the_process_ends_without_raising_anything():
    done = subprocess.run([sys.executable, "-c", EXHAUSTED], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("lln: out of memory")
    assert done.stdout == ""


def test_an_interrupt_that_python_cannot_raise_comes_again():
    process = interrupted(DEAF)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors == ""


@pytest.mark.parametrize(("said", "code"), [("error return without exception set", 1), ("a fault of Python", None)])
def test_no_memory_for_an_exception_is_a_lack_of_memory(said, code, monkeypatch, capfd):
    from lln.cli import app, main

    def run(**_: object) -> None:
        raise SystemError(said)

    monkeypatch.setattr(app, "main", run)
    with pytest.raises(SystemError if code is None else SystemExit):
        main()
    assert capfd.readouterr().err.startswith("lln: out of memory") == (code == 1)


LITTLE = """
import mmap, resource
from pathlib import Path
from lln.cli import app, command
app.main = lambda **_: print("begun")
size = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 21), size + (1 << 21)))
command()
"""


def test_a_command_does_not_begin_with_less_memory_than_reading_its_words_takes():
    done = subprocess.run([sys.executable, "-c", LITTLE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("lln: out of memory")
