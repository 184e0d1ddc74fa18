"""Run the examples of this folder and write their pictures.

python examples/gallery/run.py [NAME ...] [--out docs/images/gallery]
"""

from __future__ import annotations

import argparse
import runpy
import tempfile
from contextlib import chdir
from pathlib import Path

from lln.plots import save_figure

HERE = Path(__file__).resolve().parent
PICTURES = HERE.parents[1] / "docs" / "images" / "gallery"


def run(name: str, out: Path) -> Path:
    """Run one example in a temporary folder, and save the `figure` that it leaves."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        names = runpy.run_path(str(HERE / f"{name}.py"))
    return save_figure(names["figure"], out / f"{name}.png")


def main() -> None:
    """Run those that are named, or all."""
    parser = argparse.ArgumentParser(description="Run the examples and write their pictures.")
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--out", type=Path, default=PICTURES)
    given = parser.parse_args()
    for name in given.names or sorted(path.stem for path in HERE.glob("[0-9]*.py")):
        print(run(name, given.out), flush=True)


if __name__ == "__main__":
    main()
