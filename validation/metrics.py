"""Count how far a reader must go: files behind a command, files in a folder, lines of source (`make metrics`).

A file counts for a command when one of its functions runs outside of an import.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "lln"
COMMANDS = (
    ("simulate lorenz-28 --steps 600 -o l.npz", None),
    ("fit l.npz -o l.lln --members 1 --depth 4 --width 8 --epochs 2 --test 0.2", 40),
    ("rollout l.lln --steps 100 -o r.npz", 20),
    ("export l.lln -o c --format c", 20),
)
TRACED = """
import sys

package, out, *words = sys.argv[1:]
seen = set()


importing = 0


def trace(frame, event, _):
    global importing
    code = frame.f_code
    if code.co_name == "<module>":
        importing += {"call": 1, "return": -1}.get(event, 0)
    elif importing == 0 and event == "call" and code.co_filename.startswith(package):
        seen.add(code.co_filename)


sys.argv = ["lln", *words]
sys.setprofile(trace)
import threading

threading.setprofile(trace)
from lln.cli import main

try:
    main()
except SystemExit as end:
    code = end.code or 0
finally:
    sys.setprofile(None)
    open(out, "w").write("\\n".join(sorted(seen)))
sys.exit(code)
"""


def touched(command: str, folder: Path) -> list[str]:
    """Files of the package, relative to it, in which a function runs during `command`."""
    out = folder / "touched.txt"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-c", TRACED, str(PACKAGE), str(out), *command.split()]
    subprocess.run(words, cwd=folder, env=environment, check=True, capture_output=True)
    return [str(Path(name).relative_to(PACKAGE)) for name in out.read_text().split()]


def folders() -> Counter[str]:
    """Number of Python files in each folder of the package."""
    return Counter(str(path.parent.relative_to(PACKAGE.parent)) for path in PACKAGE.rglob("*.py"))


def lines() -> int:
    """Lines of Python in src."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / "src").rglob("*.py"))


def main() -> None:
    """Print the counts."""
    with tempfile.TemporaryDirectory() as name:
        for command, most in COMMANDS:
            files = touched(command, Path(name))
            if most is not None:
                print(f"lln {command.split()[0]:<8} {len(files):3d} files (aim: at most {most})")
                if "--list" in sys.argv:
                    print("\n".join(f"  {file}" for file in files))
    print(f"src          {lines():,} lines of Python (aim: about 26,000)")
    for folder, count in folders().most_common(6):
        print(f"  {count:3d} files in {folder}")


if __name__ == "__main__":
    main()
