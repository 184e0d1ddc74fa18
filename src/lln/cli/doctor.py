"""`lln doctor` and `lln explain`: what this installation can do, and what an error means."""

from __future__ import annotations

import re
import shutil
import textwrap
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from lln.cli.console import AsJson, echo, facts, show_json
from lln.core.errors import choice

PACKAGES = ("torch", "numpy", "scipy", "llvmlite", "triton", "safetensors", "h5py", "xarray", "matplotlib")
OPTIONAL = dict.fromkeys(("onnx", "onnxruntime", "onnxscript"), "lln[export]")
OPTIONAL |= {"optuna": "lln[search]", "zarr": "lln[data]", "distributed": "lln[cluster]"}


def doctor(as_json: AsJson = False) -> None:
    """Show which backend is used here, why the others are not, and what is missing."""
    found = examine()
    if as_json:
        show_json(found)
    else:
        echo(to_text(found), indent=2)


def examine() -> dict[str, Any]:
    """Versions, machine, backends by device, threads, cache folder, and a sentence for everything that is missing."""
    import torch

    from lln.core.provenance import provenance, version_of
    from lln.ops.cpu import backend as cpu_backend

    unusable = cpu_backend.unavailable()
    folder = None
    if unusable is None:
        from lln.ops.cpu.simd import cache

        folder = cache.location()
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    found = {
        "versions": provenance(*PACKAGES, *OPTIONAL),
        "instructions": None if unusable else cpu_backend.level(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "cache": None if folder is None else str(folder),
        "backends": {device: _backends(device) for device in devices},
    }
    missing = [] if unusable is None else [f"fused CPU kernels: {unusable}"]
    if unusable is None and folder is None:
        missing.append("a cache folder for kernels: none can be written, so every process compiles them again")
    source = checkout()
    missing += [
        f"{name}: pip install '{extra}'" if source is None else f"{name}: pip install -e '{source}{extra[3:]}'"
        for name, extra in OPTIONAL.items()
        if version_of(name) is None
    ]
    return {**found, "missing": missing}


def checkout() -> Path | None:
    """The folder of the source that this package runs from; None if it was installed from a wheel."""
    root = Path(__file__).resolve().parents[3]
    return root if (root / "pyproject.toml").is_file() and (root / "src" / "lln").is_dir() else None


def _backends(device: str) -> dict[str, Any]:
    """The backend that runs a small float32 stack on `device`, and the answer of every backend."""
    import torch

    from lln.ops import explain

    rays = torch.zeros(4, 16, device=device)
    lenses = torch.zeros(2, 16, 12, device=device)
    said = explain(rays, rays, lenses, [float(k) for k in range(12)], 1.0)
    return {"serves": said.serves, "reasons": said.reasons}


def to_text(found: dict[str, Any]) -> str:
    """The facts as a page of text."""
    versions = found["versions"]
    machine = ("processor", "cores", "system", "python", "commit", "date")
    lines = [f"lln {versions['lln']} on {versions['processor']}, {versions['cores']} cores, {versions['system']}"]
    packages = [f"{name}=={version}" for name, version in versions.items() if version and name not in (*machine, "lln")]
    lines.append(f"python {versions['python']}, {', '.join(packages)}")
    lines.append(f"CPU instructions: {found['instructions'] or 'no fused kernels'}; threads: {found['threads']}")
    lines.append(f"GPU: {found['gpu'] or 'none'}")
    lines.append(f"cache of kernels: {found['cache'] or 'none'}")
    for device, said in found["backends"].items():
        lines.append(f"\nfloat32 on {device}: backend {said['serves']!r} serves")
        lines += [f"  {name:<10} {reason}" for name, reason in said["reasons"].items()]
    missing = found["missing"]
    lines.append("\nmissing:" if missing else "\nnothing is missing")
    return "\n".join([*lines, *(f"  {line}" for line in missing)])


_SECTION = re.compile(r"^\((?P<topic>[\w-]+)\)=\n## (?P<title>.+)\n(?P<body>(?:(?!^\([\w-]+\)=$).*\n?)*)", re.MULTILINE)
_BLOCK = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
_EMPHASIS = re.compile(r"(?<![\w`*])\*(\w[^*`]*)\*(?!\w)")
_WIDEST = 100


class Topic(NamedTuple):
    """One part of the page: its heading, and its text as paragraphs without the examples."""

    title: str
    paragraphs: tuple[str, ...]


def topics() -> dict[str, Topic]:
    """Every part of the page on errors, by its name."""
    page = files("lln.cli").joinpath("errors.md").read_text(encoding="utf-8")
    found = {}
    for part in _SECTION.finditer(page):
        prose = _EMPHASIS.sub(r"\1", _LINK.sub(r"\1 (\2)", _BLOCK.sub("", part["body"])))
        paragraphs = [" ".join(one.split()) for one in re.split(r"\n\s*\n", prose)]
        found[part["topic"]] = Topic(part["title"], tuple(filter(None, paragraphs)))
    return found


def _named(typed: str) -> list[str]:
    return [name for name in topics() if name.startswith(typed)]


def explain(
    topic: Annotated[
        str | None, typer.Argument(help="The name behind an error; all of them if left out.", autocompletion=_named)
    ] = None,
) -> None:
    """Explain what an error means and how to fix it.

    Errors end in a line such as "more: lln explain transposed". The same text, with an example of each, is the
    documentation's page on errors.
    """
    known = topics()
    if topic is None:
        typer.echo("lln explain NAME says more about an error that contains these words:")
        facts({name: one.title for name, one in known.items()})
        return
    said = known[choice("topic", topic.lower(), known)]
    width = min(_WIDEST, shutil.get_terminal_size().columns)
    wrapper = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    typer.echo("\n\n".join([said.title, *map(wrapper.fill, said.paragraphs)]))
