"""The wheel as a user gets it: built, installed in a fresh environment outside the repository, every command tried.

`python validation/wheel.py` (or `make wheel`); with `--keep FOLDER` the environment stays. Nothing of the checkout is
on the path of what is tried: the commands run in an empty folder, with a home of their own. The exit code is 1 if the
wheel lacks a file, or if a command fails, prints a traceback or does not write what it should.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "lln"
LEFT_OUT = (PACKAGE / "view" / "page" / "web",)  # what bundle.js is built from
EXTRAS = "export,search,data,cluster"
# Each command with its words, and the files that it must leave behind.
TRIED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("--version", ()),
    ("--help", ()),
    ("doctor", ()),
    ("explain", ()),
    ("explain transposed", ()),
    ("simulate lorenz-28 --steps 600 -o l.nc", ("l.nc",)),
    ("simulate lorenz-28 --steps 600 -o l.zarr", ("l.zarr",)),
    ("fit l.nc -o l.lln --members 1 --depth 8 --width 16 --epochs 3 --history 1 --test 0.2", ("l.lln",)),
    ("inspect l.lln", ()),
    ("rollout l.lln --steps 100 -o r.csv", ("r.csv",)),
    ("evaluate l.lln l.zarr", ()),
    ("compare l.nc --models lens,linear,persistence --set epochs=2 --set members=1 --plot c.png", ("c.png",)),
    ("search l.nc --budget 2 --set epochs=2 --storage s.db -o best.lln", ("s.db", "best.lln")),
    ("export l.lln -o l.onnx --rollout", ("l.onnx",)),
    ("export l.lln -o c --format c --name lorenz", ("c/lorenz.c", "c/lorenz.h", "c/lorenz_selftest.c")),
    ("export l.lln -o l.pt2 --format torch", ("l.pt2",)),
    ("page l.lln --data l.nc -o l.html", ("l.html",)),
    ("animate l.lln --data l.nc -o l.gif --steps 50 --frames 10", ("l.gif",)),
    ("draw l.lln -o l.svg", ("l.svg",)),
    ("audit", ()),
    ("reproduce gradients --quick --jobs 1 --out records --no-report", ("records/records.jsonl",)),
    ("report --records records --out report", ("report/report.html", "report/summary.md")),
)


def expected() -> set[str]:
    """Every file of the package that a wheel must hold, as the wheel names it."""
    files = (path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    kept = (path for path in files if not any(path.is_relative_to(folder) for folder in LEFT_OUT))
    return {path.relative_to(PACKAGE.parent).as_posix() for path in kept}


def build(folder: Path) -> Path:
    """The wheel of this checkout, in `folder`."""
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(words, check=True)
    (wheel,) = folder.glob("lln-*.whl")
    return wheel


def differs(wheel: Path) -> list[str]:
    """What the wheel lacks, and what it should not hold."""
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if not name.partition("/")[0].endswith(".dist-info")}
    lacking = [f"the wheel lacks {name}" for name in sorted(expected() - held)]
    return lacking + [f"the wheel should not hold {name}" for name in sorted(held - expected())]


def install(wheel: Path, folder: Path) -> Path:
    """A fresh environment with the wheel and its extras; its folder of programs."""
    venv.create(folder, with_pip=True)
    programs = folder / "bin"
    words = [programs / "python", "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt"]
    subprocess.run([*map(str, words), f"{wheel}[{EXTRAS}]"], check=True, cwd=folder)
    return programs


def attempts(programs: Path, folder: Path) -> Iterator[tuple[str, float, str]]:
    """Each command, the seconds it took, and what is wrong with it; no words if nothing is."""
    kept = {name: os.environ[name] for name in ("LANG", "TERM", "OMP_NUM_THREADS") if name in os.environ}
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    environment = {**kept, "PATH": path, "HOME": str(folder / "home"), "SHELL": "/bin/bash"}
    work = folder / "work"
    for place in (folder / "home", work):
        place.mkdir()
    code = "import lln, lln.cli.app as a; print(lln.__file__, *(c.function.__name__ for c in a.COMMANDS))"
    asked = subprocess.run(
        [programs / "python", "-c", code], cwd=work, env=environment, capture_output=True, text=True, check=True
    )
    home, *names = asked.stdout.split()
    yield "import lln", 0.0, "" if Path(home).is_relative_to(programs.parent) else f"it came from {home}"
    untried = set(names) - {line.split()[0] for line, _ in TRIED}
    for line, files in (*TRIED, *((f"{name} --help", ()) for name in names)):
        began = time.perf_counter()
        done = subprocess.run(
            [programs / "lln", *line.split()], cwd=work, env=environment, capture_output=True, text=True, check=False
        )
        yield f"lln {line}", time.perf_counter() - began, _wrong(done, [work / file for file in files])
    if untried:
        yield "every command", 0.0, f"not tried: {', '.join(sorted(untried))}"


def _wrong(done: subprocess.CompletedProcess[str], files: list[Path]) -> str:
    if done.returncode:
        return f"left with {done.returncode}: {(done.stderr or done.stdout).strip()[-400:]}"
    if "Traceback" in done.stderr:
        return done.stderr.strip()[-400:]
    missing = [file.name for file in files if not file.exists()]
    return f"did not write {', '.join(missing)}" if missing else ""


def main() -> int:
    """Build, install, try; prints a line for each command."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="work here and remove nothing")
    parser.add_argument("--list", action="store_true", help="build, compare the list of files, and stop")
    given = parser.parse_args()
    folder = given.keep.resolve() if given.keep else Path(tempfile.mkdtemp(prefix="lln-wheel-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        wheel = build(folder)
        faults = differs(wheel)
        print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MiB, {len(expected())} files of the package")
        if not given.list:
            began = time.perf_counter()
            programs = install(wheel, folder / "environment")
            print(f"installed in a fresh environment in {time.perf_counter() - began:.0f} s")
            for line, seconds, wrong in attempts(programs, folder):
                print(f"{'FAILED' if wrong else 'ok':<7}{seconds:6.1f} s  {line}", flush=True)
                faults += [f"{line}: {wrong}"] if wrong else []
    finally:
        if given.keep is None:
            shutil.rmtree(folder)
    for fault in faults:
        print(fault, file=sys.stderr)
    print("the wheel works" if not faults else f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
