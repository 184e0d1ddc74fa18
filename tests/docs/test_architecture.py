import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "lln"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def named(pattern):
    """Files of the package with this name, apart from what npm installs and Python compiles."""
    return [path for path in PACKAGE.rglob(pattern) if not {"node_modules", "__pycache__"} & set(path.parts)]


@pytest.mark.parametrize(
    ("pattern", "place", "content"),
    [
        ("*ridge*", "fit/closed/ridge.py", r"^RIDGES = "),
        ("triton/*kernel*", "ops/triton/kernels.py", r"triton\.jit"),
        ("*csv*", "data/read/csv.py", r"^def "),
        ("*.css", "view/page/page.css", r"--[\w-]+: *#"),
        ("*lorenz*", "systems/lorenz.py", r"^class Lorenz"),
        ("printed", "paper/printed", None),
    ],
)
def test_the_name_of_a_file_says_where_to_make_a_change(pattern, place, content):
    assert named(pattern) == [PACKAGE / place]
    assert f"`src/lln/{place}" in PAGE
    if content is not None:
        assert re.search(content, (PACKAGE / place).read_text(encoding="utf-8"), re.MULTILINE)


def test_the_page_names_only_places_that_exist():
    places = re.findall(r"`(src/lln/[^`]+)`", PAGE)
    assert [place for place in places if not (ROOT / place).exists()] == []
    folders = re.findall(r"^  (fit/\w+)", PAGE, re.MULTILINE)
    assert sorted(folders) == sorted(f"fit/{path.parent.name}" for path in (PACKAGE / "fit").glob("*/__init__.py"))


def test_folders_and_files_stay_small():
    for folder in {path.parent for path in PACKAGE.rglob("*.py")}:
        assert len(list(folder.glob("*.py"))) <= 16, folder
    for path in PACKAGE.rglob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 600, path
