"""ONNX Runtime stays silent: an export leaves nothing in the user's folders and opens no socket."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WATCHED = """
import json, os, sys, threading, time
import lln
from lln.export.onnx import export_onnx

opened, done = set(), threading.Event()


def watch():
    while not done.is_set():
        for entry in os.listdir("/proc/self/fd"):
            try:
                opened.add(os.readlink(f"/proc/self/fd/{entry}"))
            except OSError:
                pass
        time.sleep(0.002)


watcher = threading.Thread(target=watch)
watcher.start()
quiet = ("socket.gethostname",)  # asks this machine only
sys.addaudithook(lambda event, _: opened.add(event) if event.startswith("socket.") and event not in quiet else None)
model = lln.load(sys.argv[1])
export_onnx(model.surrogate_, "model.onnx", window=model.last_window_)
time.sleep(1.5)  # the telemetry of ONNX Runtime starts in a thread of its own
done.set()
watcher.join()
print(json.dumps(sorted(opened)))
"""


def test_an_export_leaves_no_file_and_opens_no_socket(tmp_path):
    pytest.importorskip("onnxruntime")
    home = tmp_path / "home"
    home.mkdir()
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("ORT_", "XDG_", "COVERAGE"))}
    environment |= {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "OMP_NUM_THREADS": "1"}
    golden = ROOT / "tests" / "golden" / "forecaster-format-1.lln"
    words = [sys.executable, "-c", WATCHED, golden]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    opened = json.loads(done.stdout)
    assert (tmp_path / "model.onnx").exists()
    assert [name for name in opened if name.startswith("socket")] == []
    left = [str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()]
    assert [name for name in left if not name.startswith("cache/lln/")] == []


def test_onnxruntime_is_imported_in_one_place():
    found = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] == "onnxruntime" for name in names):
                found.append(str(path.relative_to(ROOT)))
    assert found == ["src/lln/export/onnx.py"]
