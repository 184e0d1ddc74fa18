"""What the documentation is built with beside Sphinx's own: formulas, commands, the gallery and the live page."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import latex2mathml.converter
from docutils import nodes
from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
MADE = DOCS / "_made"
# Modules that import only on a machine with a GPU.
LEFT_OUT = {"lln.ops.triton.kernels", "lln.ops.triton.launch"}


def _formula(display: str) -> Any:
    """A visitor that writes a formula as MathML, which browsers draw without a script or a network."""

    def visit(self: Any, node: nodes.Element) -> None:
        text = node.astext().strip()
        inner = re.sub(r"\\\\\s*\n", r"\\\\ ", text)
        mathml = latex2mathml.converter.convert(inner, display=display)
        self.body.append(f'<div class="formula" tabindex="0">{mathml}</div>' if display == "block" else mathml)
        raise nodes.SkipNode

    return visit


def write_commands(target: Path) -> None:
    """One page with every command: its help, its options and an example, read from the code."""
    import typer.main

    from lln.cli.app import COMMANDS, app

    group = typer.main.get_command(app)
    examples = {command.function.__name__: command for command in COMMANDS}
    lines = ["# Commands", "", "Every command of `lln`, from the code itself. `lln COMMAND --help` shows the same.", ""]
    for name, command in group.commands.items():
        known = examples.get(command.callback.__name__ if command.callback else name)
        lines += [f"## lln {name}", "", *_paragraphs(command.help or ""), ""]
        if known is not None:
            lines += ["```sh", known.example, "```", ""]
        rows = [_option(parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]
        if rows:
            lines += ["| option | meaning | default |", "|---|---|---|", *rows, ""]
    _write(target, "\n".join(lines))


def _paragraphs(text: str) -> list[str]:
    text = re.split(r"\n\s*(?:\[bold\])?Example", text)[0].replace("\f", "")
    return [_plain(" ".join(part.split())) + "\n" for part in re.split(r"\n\s*\n", text.strip()) if part.strip()]


def _option(parameter: Any) -> str:
    named = (
        parameter.opts + parameter.secondary_opts if parameter.param_type_name == "option" else [parameter.name.upper()]
    )
    words = " ".join(str(getattr(parameter, "help", "") or "").split())
    default = parameter.default
    nothing = default is None or default is False or default == () or callable(default) or "Sentinel" in repr(default)
    shown = "" if nothing else f"`{parameter.opts[0] if default is True else default}`"
    told = getattr(parameter, "show_default", None)  # a value, or words for a default that depends on the data
    if isinstance(told, str):
        shown = _plain(told) if " " in told else f"`{told}`"
    shown = "required" if parameter.required else shown
    return f"| {', '.join(f'`{name}`' for name in named)} | {_plain(words).replace('|', chr(92) + '|')} | {shown} |"


def _plain(text: str) -> str:
    """Help text without the terminal's markup, with options as code: two hyphens in text become a dash."""
    text = re.sub(r"\[/?(?:bold|dim|cyan|green|yellow|red|italic)[^\]]*\]", "", text).replace("\\[", "[")
    return re.sub(r"(?<![`\w-])--[a-z][a-z-]*", r"`\g<0>`", text)


def write_gallery(target: Path) -> None:
    """The examples under examples/gallery with their pictures, one page each and one with all of them."""
    index = ["# Gallery", "", "Short programs, each with the picture that it makes. All are run by the tests.", ""]
    index += ["```{toctree}", ":hidden:", ""]
    names = sorted(path.stem for path in (ROOT / "examples" / "gallery").glob("[0-9]*.py"))
    index += [*names, "```", "", '<div class="gallery">', ""]
    for name in names:
        path = ROOT / "examples" / "gallery" / f"{name}.py"
        title, _, words = _docstring(path).partition("\n")
        code = re.sub(r'^""".*?"""\n+', "", path.read_text(encoding="utf-8"), count=1, flags=re.DOTALL)
        picture = f"../../images/gallery/{name}.png"
        page = [
            f"# {title.rstrip('.')}",
            "",
            *_paragraphs(words),
            "",
            f"![{title}]({picture})",
            "",
            "```python",
            code.rstrip(),
            "```",
        ]
        page += ["", f"The file is `examples/gallery/{name}.py`."]
        _write(target / f"{name}.md", "\n".join(page))
        image = f'<img src="../../_images/{name}.png" alt="">'
        index += [f'<a class="card" href="{name}.html">{image}<span>{title.rstrip(".")}</span></a>', ""]
    index += ["</div>"]
    _write(target / "index.md", "\n".join(index))


def write_internals(target: Path) -> None:
    """One page for each folder of the package, with the modules in it; commands have a page of their own."""
    source = ROOT / "src" / "lln"
    folders = sorted(path.parent for path in source.glob("*/__init__.py") if path.parent.name != "cli")
    index = [
        "# Internals",
        "",
        "The modules inside `lln`, for those who change or extend it; one page for each folder.",
        "",
    ]
    index += ["```{toctree}", ":maxdepth: 1", "", *(folder.name for folder in folders), "```"]
    for folder in folders:
        words = _docstring(folder / "__init__.py")
        lines = [f"# lln.{folder.name}", "", *_paragraphs(words), ""]
        for path in sorted(folder.rglob("*.py")):
            module = ".".join(path.relative_to(source.parent).with_suffix("").parts)
            private = any(part.startswith("_") for part in path.relative_to(source).parts)
            if private or module in LEFT_OUT or "node_modules" in module:
                continue
            lines += [f"## {module.removeprefix('lln.')}", "", "```{eval-rst}", f".. automodule:: {module}"]
            lines += [f"   :exclude-members: +{', '.join(names)}" for names in [_passed_on(path)] if names]
            lines += ["```", ""]
        _write(target / f"{folder.name}.md", "\n".join(lines))
    _write(target / "index.md", "\n".join(index))


def _passed_on(path: Path) -> list[str]:
    """What a module lists in `__all__` for another one of the package, whose page describes it."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    taken = {
        name.asname or name.name
        for line in body
        if isinstance(line, ast.ImportFrom) and (line.module or "").startswith("lln.")
        for name in line.names
    }
    listed = [line.value for line in body if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "__all__"]
    return sorted(taken & {name for value in listed for name in ast.literal_eval(value)})


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or path.stem


def write_live(target: Path) -> None:
    """The page of the small model in docs/live."""
    import numpy as np

    import lln
    from lln.data.series import Dataset, Series

    states = np.load(DOCS / "live" / "lorenz.npz")["states"].astype(np.float64)
    data = Dataset((Series(states),), 0.01, ("x", "y", "z"), source="lorenz-28", system="lorenz-28")
    model = lln.load(DOCS / "live" / "lorenz.lln")
    text = model.page(data, steps=500, title="Lorenz attractor").text
    _write(target, text)


def _write(path: Path, text: str) -> None:
    """Write only what has changed, so that Sphinx does not read everything again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def write_all(_: Sphinx) -> None:
    """Make every page that comes from code."""
    write_commands(MADE / "commands.md")
    write_gallery(MADE / "gallery")
    write_internals(MADE / "internals")
    write_live(MADE / "static" / "lorenz.html")


_NUMBER = re.compile(r"(?:[≤≥±] )?[-−]?\d[\d.,]*(?:e[-+]\d+)?(?: ?[a-zA-Z%]{1,3})?")


def keep_numbers_whole(_: Sphinx, tree: nodes.document) -> None:
    """Mark the cells of tables that hold one number: it is not broken at its unit or its exponent."""
    for cell in tree.findall(nodes.entry):
        if _NUMBER.fullmatch(cell.astext().strip()):
            cell["classes"].append("number")


_DOTTED = re.compile(r"(?<=>)\w+(?:\.\w+)+(?=</?a\b)")


def break_at_dots(_: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any) -> None:  # noqa: ARG001
    """Names of modules in headings and in the table beside them break behind a dot, not inside a word."""
    if page.startswith("_made/internals/"):
        for part in ("body", "toc"):
            context[part] = _DOTTED.sub(lambda name: name[0].replace(".", ".<wbr>"), context.get(part) or "")


# Attributes that the theme leaves out and that readers of a page by ear need.
_SPOKEN = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="All pages">',
    '<aside class="toc-drawer">': '<aside class="toc-drawer" aria-label="This page">',
    "<pre>": '<pre tabindex="0">',  # boxes that scroll must be reached by the keyboard
    '<div class="table-wrapper ': '<div tabindex="0" class="table-wrapper ',
    # The page of the search is empty without a query.
    '<div id="search-results"></div>': "<h1>Search</h1>\n<p>Type words into the search box of the menu and press Enter."
    '</p>\n<div id="search-results"></div>',
}


def name_landmarks(app: Sphinx, failed: Exception | None) -> None:
    """Give the theme's headings their level and its side bars names."""
    for path in () if failed else Path(app.outdir).rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        if 'class="sidebar-drawer"' in text:
            for old, new in _SPOKEN.items():
                text = text.replace(old, new)
            path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (_formula("inline"), None), (_formula("block"), None))
    app.connect("builder-inited", write_all)
    app.connect("doctree-read", keep_numbers_whole)
    app.connect("html-page-context", break_at_dots)
    app.connect("build-finished", name_landmarks)
    return {"parallel_read_safe": True}
