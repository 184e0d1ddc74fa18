"""Stored results: one file a group of measurements, whole or not at all, with where and how it was made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.speed.bars import BARS, level_of
from benchmarks.speed.rows import Row, as_record, checks
from benchmarks.speed.setting import Setting
from lln import __version__
from lln.core.errors import InputError
from lln.core.provenance import provenance
from lln.core.safe_files import whole_file
from lln.ops.cpu import backend as cpu_backend

FORMAT = 1
ORDER = (
    "product",
    "peers",
    "fit",
    "error",
    "stack",
    "forward",
    "training",
    "rollout",
    "ensemble",
    "field",
    "memory",
    "first-call",
    "sweep",
    "export",
)
_PACKAGES = ("torch", "numpy", "scikit-learn", "llvmlite", "triton", "onnxruntime")


def machine(device: str) -> dict[str, Any]:
    """What the numbers depend on beside the code: the processor's vectors, the card."""
    usable = cpu_backend.unavailable() is None
    gpu = torch.cuda.get_device_name() if device == "cuda" else None
    instructions = cpu_backend.level() if usable else None
    return {"device": device, "gpu": gpu, "instructions": instructions, "level": level_of(instructions, gpu)}


def write_group(
    folder: Path, group: str, setting: Setting, rows: Sequence[Row], command: str, commit: str | None
) -> Path:
    """Write the rows of one group and how they stand against their bars."""
    where = machine(setting.device)
    held = checks(rows, BARS, where["level"])
    made = {
        **provenance(*_PACKAGES),
        **where,
        "lln": __version__,
        "torch": torch.__version__,
        "threads": 1,
        "command": command,
    }
    if commit is not None:
        made["commit"] = commit
    records = [as_record(row, rows, held) for row in rows]
    content = {"format": FORMAT, "group": group, "quick": setting.quick, "made": made, "skipped": setting.skipped}
    name = f"{_prefix(setting.quick)}{setting.device}-{group}.json"
    return write_whole(folder / name, json.dumps({**content, "rows": records}, indent=1) + "\n")


def write_whole(path: Path, text: str) -> Path:
    """Write a file, and make its folder; an interruption leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as partial:
        partial.write_text(text)
    return path


def read_groups(folder: Path, device: str, quick: bool = False) -> dict[str, dict[str, Any]]:
    """The stored groups of `device`, by name: the full ones, or those of --quick."""
    found = {}
    for path in sorted(folder.glob(f"{_prefix(quick)}{device}-*.json")):
        content = json.loads(path.read_text())
        if content.get("format") != FORMAT:
            raise InputError(f"{path}: not a benchmark's results in format {FORMAT}; run `make bench` again")
        found[str(content["group"])] = content
    return dict(sorted(found.items(), key=lambda item: ORDER.index(item[0])))


def _prefix(quick: bool) -> str:
    return "quick-" if quick else ""
