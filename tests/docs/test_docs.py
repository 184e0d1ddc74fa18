"""Every code block that a reader may copy is run, and every name and folder that the pages mention exists."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", [p for p in PAGES if BLOCK.search(p.read_text())], ids=lambda p: p.name)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in BLOCK.findall(page.read_text()):
        exec(compile(block, str(page), "exec"), names)


def resolve(name):
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise AssertionError(f"{name} does not exist")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_names_and_files_on_the_pages_exist(page):
    text = page.read_text()
    for name in set(re.findall(r"`(lln(?:\.\w+)+)", text)):
        resolve(name)
    for path in set(re.findall(r"`((?:src|tests|docs|benchmarks|examples|results)/[\w./-]+)`", text)):
        assert (ROOT / path).exists(), f"{page.name} mentions {path}"


def test_the_drawing_of_the_house_names_the_rooms_that_exist():
    drawing = (ROOT / "docs" / "architecture.md").read_text().split("```text")[1].split("```")[0]
    rows = [re.split(r"\s{2,}", line)[0] for line in drawing.strip().splitlines()]
    drawn = {room for row in rows for room in row.split(" | ")}
    assert drawn == {p.name for p in (ROOT / "src" / "lln").iterdir() if (p / "__init__.py").exists()}
