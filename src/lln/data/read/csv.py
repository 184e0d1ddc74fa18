"""CSV as people write it: with a header or not, commas or semicolons or tabs, points or decimal commas."""

from __future__ import annotations

import codecs
import csv
import io
import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lln.core.errors import InputError, reason
from lln.data.interpret.roles import Choices
from lln.data.interpret.tables import from_frame
from lln.data.read.lazy import refuse_beyond_memory
from lln.data.series import Dataset

MISSING = {"", "nan", "na", "n/a", "null", "none", "-", "?"}
_ROW_NUMBERS = "the first column has no name and counts the rows, so it is left out"
_OPEN_END = "the last line has no end; if the file was cut short, its last number may be wrong"
LOOK = 1 << 16  # bytes looked at to find out how a file is written


def read_csv(path: Path, **options: Any) -> Dataset:
    """The trajectories in a CSV file; see `as_dataset` for the options."""
    import pandas as pd

    encoding, start = _start_of(path)
    refuse_beyond_memory(2 * path.stat().st_size, str(path))
    lines = [line for line in start.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        raise InputError(
            f"{path}: no line of data in it; expected a row for each time and a column for each coordinate"
        )
    separator = _separator(lines)
    decimal = "," if separator == ";" and any(re.search(r"(^|;)\s*-?\d+,\d", line) for line in lines[:5]) else "."
    headings = _cells(lines[0], separator)
    headed = not _all_numbers(headings, decimal)
    twice = [name for name in headings if name and headings.count(name) > 1]
    if headed and twice:
        raise InputError(f"{path}: two columns are called {twice[0]!r}; rename one of them")
    _refuse_cut_short(path, encoding, separator, len(_cells(lines[0], separator)))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            frame = pd.read_csv(
                path,
                sep=r"\s+" if separator == " " else separator,
                header=0 if headed else None,
                comment="#",
                decimal=decimal,
                skipinitialspace=True,
                na_values=["-", "?", "none", "NONE"],
                encoding=encoding,
                low_memory=False,
                index_col=False,
            )
    except pd.errors.ParserError as error:
        raise InputError(
            f"{path}: rows have different numbers of cells ({str(error).strip().rpartition(': ')[2]}); every row needs "
            "one cell a column"
        ) from error
    except (UnicodeError, ValueError, OverflowError) as error:
        raise InputError(f"{path}: cannot be read as CSV ({reason(error)}); save it as plain text") from error
    notes = []
    if headed:
        frame.columns = [str(name).strip() for name in frame.columns]
        counted = [name for name in _unnamed(frame) if _counts_rows(frame[name])]
        if counted and not Choices(**options).mentions("index"):
            frame = frame.drop(columns=counted)
            notes.append(f"{path}: {_ROW_NUMBERS}")
        frame = frame.rename(columns=dict.fromkeys(_unnamed(frame), "index"))
    else:
        frame.columns = [f"x{i}" for i in range(frame.shape[1])]
    empty = [name for name in frame.columns if name.startswith("Unnamed: ") and frame[name].isna().all()]
    dataset = from_frame(frame.drop(columns=empty), source=str(path), headed=headed, first_row=1 + headed, **options)
    end = () if _ended(path, encoding) else (f"{path}: {_OPEN_END}",)
    return replace(dataset, notes=(*notes, *dataset.notes, *end))


def _unnamed(frame: Any) -> list[str]:
    """The first column if it has no name, also one that was read and written as such before."""
    return [name for name in frame.columns if name.startswith("Unnamed: 0")]


def _counts_rows(column: Any) -> bool:
    """Whether a column is 0, 1, 2, ..., which pandas writes in front where no index was asked for."""
    return bool(column.dtype.kind in "iu" and (column.to_numpy() == np.arange(len(column))).all())


def _start_of(path: Path) -> tuple[str, str]:
    with path.open("rb") as file:
        start = file.read(LOOK)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif b"\0" in start:
        raise InputError(f"{path}: not a text file; give it the suffix of what it is, or save it as CSV")
    else:
        encoding = "utf-8-sig"
    text = codecs.getincrementaldecoder(encoding)("strict")
    try:
        return encoding, text.decode(start)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from error


def _separator(lines: list[str]) -> str:
    """The mark that splits the first lines into the same number of cells."""
    for mark in ("\t", ";", ",", " "):
        counts = {len(_cells(line, mark)) for line in lines[:-1][:5] or lines[:1]}
        if len(counts) == 1 and counts != {1}:
            return mark
    return ","


def _cells(line: str, separator: str) -> list[str]:
    if separator == " ":
        return line.split()
    try:
        return [cell.strip() for cell in next(csv.reader(io.StringIO(line), delimiter=separator), [])]
    except csv.Error:  # a quote that never ends, or a line break of another kind
        return line.split(separator)


def _all_numbers(cells: list[str], decimal: str) -> bool:
    """Whether a row holds numbers, gaps, or a date in front, as rows of data do."""
    for index, cell in enumerate(cells):
        if cell.lower() in MISSING:
            continue
        try:
            float(cell.replace(decimal, "."))
        except ValueError:
            if not (index == 0 and re.match(r"\d{4}-\d{2}-\d{2}", cell)):
                return False
    return any(cell.lower() not in MISSING for cell in cells)


def _ended(path: Path, encoding: str) -> bool:
    """Whether the last line has an end, which a stopped copy, but also some programs, leave out."""
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read() in b"\r\n" or encoding == "utf-16"


def _refuse_cut_short(path: Path, encoding: str, separator: str, columns: int) -> None:
    """A last line without an end and with too few cells is what a stopped copy leaves."""
    if encoding == "utf-16":
        return
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - LOOK))
        tail = file.read()
    last = re.split(rb"\n|\r", tail)[-1].decode(errors="replace")
    if last.strip() and len(tail) > len(last) and len(_cells(last, separator)) < columns:
        raise InputError(
            f"{path}: the last line ({last.strip()[:40]!r}) has {len(_cells(last, separator))} of {columns} cells; the "
            "file was cut short, so copy it again or remove that line"
        )
