"""The performance page: its tables are made from the stored rows, between two comments each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.speed.report import BAR_COLUMNS, bar_rows, made, misses, time_columns, time_rows
from benchmarks.speed.store import read_groups, write_whole
from lln.core.errors import InputError, choice, reason

# <!-- rows: WHAT DEVICE --> ... <!-- end of rows -->
_BLOCK = re.compile(r"(<!-- rows: ([a-z-]+) ([a-z]+) -->\n).*?(<!-- end of rows -->)", re.DOTALL)
_NONE = "No rows are stored for this device."


def refresh(page: Path, results: Path) -> None:
    """Fill the page's blocks from the stored rows."""
    try:
        text = page.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{page}: cannot be read as text ({reason(error)}); name a page with blocks of rows"
        ) from error
    write_whole(page, filled(text, results))


def filled(text: str, results: Path) -> str:
    """The page's text with every block made from the rows stored in `results`."""
    stored = {device: read_groups(results, device) for device in ("cpu", "cuda")}

    def block(match: re.Match[str]) -> str:
        groups = stored[choice("device", match[3], stored)]
        return f"{match[1]}{_content(match[2], groups)}\n{match[4]}"

    return _BLOCK.sub(block, text)


def _content(what: str, groups: Mapping[str, dict[str, Any]]) -> str:
    if what == "bars":
        return _markdown(BAR_COLUMNS, bar_rows(groups.values())) if groups else _NONE
    if what == "misses":
        found = misses(groups.values())
        return "\n".join(f"- {line}" for line in found) or ("Every bar holds." if groups else _NONE)
    if what == "made":
        return "\n".join(f"- {name}: {made(group)}" for name, group in groups.items()) or _NONE
    if what not in groups:
        return _NONE
    return _markdown(time_columns(groups[what]), time_rows(groups[what]))


def _markdown(columns: list[str], rows: list[list[str]]) -> str:
    from lln.core.table import Table

    return Table(columns, rows).to_markdown()


def check_page(page: Path, results: Path) -> None:
    """Raise unless the page shows what is stored."""
    text = page.read_text()
    if filled(text, results) != text:
        raise InputError(f"{page} does not show the stored rows; run `python -m benchmarks.speed --page {page}`")
