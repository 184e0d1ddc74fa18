"""Every code block that a reader may copy is run, and every name, command and folder that the pages mention exists."""

import importlib
import importlib.util
import re
import shlex
from pathlib import Path

import click
import pytest
import typer

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *sorted(DOCS.glob("*.md")),
    *sorted(DOCS.glob("tutorials/*.md")),
    *sorted(DOCS.glob("api/*.md")),
]
# Pages without code to run, whose links and names are held to the same.
BESIDE = [ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "benchmarks/apebench/README.md")]
BESIDE += [ROOT / "src" / "lln" / room / "README.md" for room in ("ops", "view/page")]
BESIDE += sorted((ROOT / "results" / "paper").glob("*.md"))
SLOW = "<!-- slow -->"


def _loaded(name):
    place = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


docs = _loaded("blocks")


def named(page):
    return str(page.relative_to(ROOT))


def runnable():
    for page in PAGES:
        text = page.read_text()
        if any(block.kind in docs.RUN for block in docs.blocks(text)):
            yield pytest.param(page, id=named(page), marks=[pytest.mark.slow] * text.startswith(SLOW))


@pytest.mark.parametrize("page", list(runnable()))
def test_a_page_runs_and_prints_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    expected = docs.shown(page)
    try:
        for block, printed in docs.outputs(page):
            missing = docs.differs(expected[block.at], printed) if block.at in expected else None
            assert missing is None, f"{page.name} shows {missing!r} but this was printed:\n{printed}"
    except docs.MissingToolError as reason:
        pytest.skip(str(reason))


def test_a_page_that_does_not_print_what_it_shows_is_found_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text("```python\nprint('error 0.5 on', 3, 'rows')\n```\n\n```text\nerror 0.7 on 12 columns\n```\n")
    ((block, printed),) = docs.outputs(page)
    assert docs.differs(docs.shown(page)[block.at], printed) == "error # on # columns"
    page.write_text("```bash\nlln simulate nothing -o a.nc\n```\n")
    with pytest.raises(AssertionError, match="exit code 2"):
        list(docs.outputs(page))
    page.write_text("```python\nassert False\n```\n")
    with pytest.raises(AssertionError, match=r"page\.md: this block failed"):
        list(docs.outputs(page))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_for_other_machines_exist(page):
    from lln.cli.app import app

    group = typer.main.get_command(app)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for block in docs.blocks(page.read_text()):
        lines = docs.commands(block.code) if block.kind == "sh" else ()
        for line in (part for whole in lines for part in whole.split("&&")):
            program, *words = shlex.split(line, comments=True)
            if program == "make":
                assert set(words) <= targets, line
            elif program == "pip":
                assert words == ["install", "-c", "constraints.txt", "."], line
            elif program == "lln":
                command = group.get_command(click.Context(group), words[0])
                assert command is not None, line
                command.make_context(words[0], words[1:])  # an option that does not exist raises


def test_the_tour_names_the_commands_that_have_json():
    from lln.cli.app import app

    commands = typer.main.get_command(app).commands
    have = {name for name, command in commands.items() if any("--json" in option.opts for option in command.params)}
    text = (ROOT / "docs" / "tour.md").read_text()
    sentence = text.split("With `--json` a program can read what ")[1].split(" say;")[0]
    assert set(re.findall(r"`(\w+)`", sentence)) == have


@pytest.mark.slow
def test_the_line_of_the_readme_from_data_to_a_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [
        line for block in docs.blocks(PAGES[0].read_text()) if block.kind == "sh" for line in docs.commands(block.code)
    ]
    (whole,) = (line for line in lines if line.startswith("lln simulate"))
    page = tmp_path / "page.md"
    page.write_text(f"```bash\n{whole}\n```\n")
    ((_, printed),) = docs.outputs(page)
    assert "scored on unseen rows" in printed  # `evaluate` must not be shown what trained
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lorenz.html", "lorenz.lln", "lorenz.nc", "page.md"]


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


LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)")


def anchors(page):
    """What a link may point to inside a page: its labels, and its headings as GitHub and MyST write them."""
    text = docs.FENCE.sub("", page.read_text())
    labels = re.findall(r"^\(([\w-]+)\)=$", text, flags=re.MULTILINE)
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {*labels, *(re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles)}


def broken(page):
    """The links of a page that lead nowhere; an address elsewhere must at least be one."""
    found = []
    for target in LINK.findall(docs.FENCE.sub("", page.read_text())):
        place, _, anchor = target.partition("#")
        if "://" in target:
            good = re.fullmatch(r"https?://[\w-]+(\.[\w-]+)+(:\d+)?(/\S*)?", target) is not None
        else:
            goal = page.parent / place if place else page
            good = goal.exists() and (not anchor or anchor in anchors(goal))
        if not good:
            found.append(target)
    return found


@pytest.mark.parametrize("page", [*PAGES, *BESIDE], ids=named)
def test_no_link_leads_nowhere(page):
    assert broken(page) == []


def test_a_link_that_leads_nowhere_is_found_out(tmp_path):
    (tmp_path / "other.md").write_text("(label)=\n## Two words, one `name`\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md) [b](other.md#label) [c](other.md#two-words-one-name) [d](https://docs.python.org/3/)"
    )
    assert broken(page) == []
    page.write_text("[a](none.md) [b](other.md#none) [c](#none) [d](https://nowhere) ![e](none.png)")
    assert broken(page) == ["none.md", "other.md#none", "#none", "https://nowhere", "none.png"]


@pytest.mark.parametrize("page", [*PAGES, *BESIDE], ids=named)
def test_names_and_files_on_the_pages_exist(page):
    text = page.read_text()
    prose = docs.FENCE.sub("", text)
    for name in set(re.findall(r"`(lln(?:\.\w+)+)", prose)) - {"lln.nc"}:
        resolve(name)
    for path in set(re.findall(r"`((?:src|tests|docs|benchmarks|examples|results)/[\w./-]+)`", text)):
        assert (ROOT / path).exists(), f"{page.name} mentions {path}"


def test_every_page_is_in_a_table_of_contents():
    listed = set(re.findall(r"^([\w/-]+)$", (DOCS / "index.md").read_text(), flags=re.MULTILINE))
    listed |= {
        f"api/{name}" for name in re.findall(r"^(\w+)$", (DOCS / "api" / "index.md").read_text(), flags=re.MULTILINE)
    }
    pages = {str(p.relative_to(DOCS).with_suffix("")) for p in PAGES[1:]} - {"index"}
    assert pages == {name for name in listed if not name.startswith("_made/")}


def test_every_public_name_has_a_page_with_an_example():
    import lln

    for name in set(lln.__all__) - {"__version__"}:
        page = DOCS / "api" / f"{name}.md"
        assert page.exists(), f"lln.{name} has no page docs/api/{name}.md"
        assert any(block.kind == "python" for block in docs.blocks(page.read_text())), f"{page.name} has no example"
        assert f"]({name}.md)" in (DOCS / "api" / "index.md").read_text()


def test_commands_are_written_from_the_code(tmp_path):
    pytest.importorskip("latex2mathml")
    made = _loaded("_ext/lln_docs")
    made.write_commands(tmp_path / "commands.md")
    text = (tmp_path / "commands.md").read_text()
    for words in (
        "## lln fit",
        "`--test`",
        "1, and all for large states",
        "lln compare b.nc --plot compare.png",
        "## lln page",
    ):
        assert words in text
    assert "[bold]" not in text


def test_internals_describe_a_class_once(tmp_path):
    pytest.importorskip("latex2mathml")
    _loaded("_ext/lln_docs").write_internals(tmp_path)
    text = (tmp_path / "fit.md").read_text()
    assert ".. automodule:: lln.fit.fitter\n   :exclude-members: +Event, Fit, FitReport, Recipe\n```" in text
    assert ".. automodule:: lln.fit.options\n```" in text


def test_the_gallery_has_a_picture_of_every_example():
    names = {path.stem for path in (ROOT / "examples" / "gallery").glob("[0-9]*.py")}
    assert len(names) >= 9
    assert {path.stem for path in (DOCS / "images" / "gallery").glob("*.png")} == names


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "examples" / "gallery").glob("[0-9]*.py")))
def test_an_example_of_the_gallery_runs(name, tmp_path):
    spec = importlib.util.spec_from_file_location("gallery", ROOT / "examples" / "gallery" / "run.py")
    gallery = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gallery)
    assert gallery.run(name, tmp_path).stat().st_size > 5000


def test_the_tree_of_the_architecture_names_the_folders_that_exist():
    drawing = (ROOT / "docs" / "architecture.md").read_text().split("```text")[1].split("```")[0]
    rows = [re.split(r"\s{2,}", line)[0] for line in drawing.strip().splitlines() if not line.startswith(" ")]
    drawn = {room for row in rows for room in row.split(" | ")}
    assert drawn == {p.name for p in (ROOT / "src" / "lln").iterdir() if (p / "__init__.py").exists()}


def test_the_changelog_and_the_citation_name_the_version():
    from lln import __version__

    heading = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert heading[1] == cited[1] == __version__
