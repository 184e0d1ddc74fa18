"""CSV in the usual notations: with a header or not, commas or semicolons or tabs, points or decimal commas."""

from __future__ import annotations

import codecs
import csv
import io
import re
import warnings
from collections import Counter
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from lln.core.errors import InputError, reason
from lln.core.table import from_cell
from lln.data.interpret.cells import THOUSANDS, counts_rows
from lln.data.read.store import ReadTable, check_memory

# Cells that stand for "missing", in lower case: of people, of instruments, and errors of spreadsheets.
MISSING = {"", "nan", "na", "n/a", "n.a.", "#n/a", "null", "nil", "none", "missing", "nd", "n.d.", "unknown"}
MISSING |= {"-", "--", "---", "?", ".", "..", "...", "*", "#value!", "#div/0!", "#ref!", "#num!", "#name?"}
NAMELESS = "index"  # name of a first column that has none
WINDOWS = "cp1252"
OPEN_END = "the last line has no end; if the file was cut short, its last number may be wrong"
GZIP = b"\x1f\x8b"
CONTROL = re.compile(r"[\x01-\x08\x0e-\x1f]")
# How amounts, dates and numbers begin, and names and units other than 10^3 kg do not.
VALUE = re.compile(r"(?!1/[^\W\d])[<>]?\s*[-+]?[$€£]?\s*([.,]?\d|inf(inity)?$)", re.IGNORECASE)
NAME = re.compile(r"\d{1,3}(?!e[-+]?\d)[^\W\d]", re.IGNORECASE)  # of names such as 2m_temperature
LOOK = 6  # lines of data from which the notation is found
PREAMBLE = 30  # lines that may stand above the header
BLOCK = 1 << 16  # bytes read at a time


@dataclass(frozen=True)
class _Notation:
    """How a file is written."""

    encoding: str  #: of its text
    separator: str  #: of its cells
    decimal: str  #: mark
    names: list[str] | None  #: of the columns; None where the first line holds numbers
    skipped: list[int]  #: numbers of the lines that are no data: comments, and the header
    first_row: int  #: number of the first row of data, for messages
    example: str = ""  #: a number with a decimal comma, if all of them could also have thousands
    row_names: bool = False  #: whether the rows have one cell more than the header, as R writes them
    notes: tuple[str, ...] = ()  #: sentences on lines that were left out


def read_csv(path: Path) -> ReadTable:
    """Read a CSV file as a table."""
    import pandas as pd

    check_memory(2 * path.stat().st_size, str(path))
    notation = _notation(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read: Any = partial(
                pd.read_csv,
                path,
                sep=r"\s+" if notation.separator == " " else notation.separator,
                header=None,
                skiprows=notation.skipped,
                skipinitialspace=True,
                encoding=notation.encoding,
                low_memory=False,
                index_col=False,
            )
            frame = read(
                decimal=notation.decimal,
                na_values=[form for word in MISSING - {""} for form in {word, word.upper(), word.capitalize()}],
                float_precision="round_trip" if notation.decimal == "." else None,
            )
            words = [name for name in frame if _words(frame[name])]
            if words:  # in which ND or unknown is a label like the others
                frame[words] = read(usecols=words, dtype=str, keep_default_na=False, na_values=[""])
    except pd.errors.EmptyDataError:
        frame = pd.DataFrame(columns=range(len(notation.names or ())))
    except pd.errors.ParserError as error:
        raise InputError(
            f"{path}: rows have different numbers of cells ({str(error).strip().rpartition(': ')[2]}); every row needs "
            "one cell for each column"
        ) from error
    except (UnicodeError, ValueError, OverflowError) as error:
        raise InputError(f"{path}: cannot be read as CSV ({reason(error)}); save it as plain text") from error
    frame, counted = _named(frame, notation, path)
    notes = [] if _ended(path, notation.encoding) else [f"{path}: {OPEN_END}"]
    notes += notation.notes
    if notation.encoding == WINDOWS:
        notes.append(f"{path}: not UTF-8, so it is read as Windows-1252, as spreadsheets in Western Europe write it")
    if notation.example:
        notes.append(
            f"{path}: the commas are taken as decimal marks ({notation.example!r} is "
            f"{notation.example.replace(',', '.')}), as is usual between semicolons; write thousands without a mark if "
            "they are not"
        )
    point = "," if notation.decimal == "," else ""
    return ReadTable(frame, str(path), notation.names is not None, notation.first_row, counted, tuple(notes), point)


def _words(column: Any) -> bool:
    """Whether a column holds empty cells, or what stands for them, beside words without digits."""
    known = column.dropna()
    words = column.dtype.kind == "O" and len(known) < len(column) and all(isinstance(cell, str) for cell in known)
    return words and not known.str.contains(r"\d").any()


def _named(frame: Any, notation: _Notation, path: Path) -> tuple[Any, str | None]:
    """The table with names for its columns, without empty columns at its end, and the column that counts the rows."""
    if notation.names is None:
        frame.columns = [f"x{i}" for i in range(frame.shape[1])]
        return frame, None
    names, width = [from_cell(name) for name in notation.names], frame.shape[1]
    while width > len(names) and frame.iloc[:, width - 1].isna().all():
        width -= 1  # a separator at the end of each row
    frame = frame.iloc[:, :width]
    if width == len(names) + 1 and notation.row_names:
        names = ["", *names]
    elif width < len(names) and len(frame):
        frame = frame.reindex(columns=range(len(names)))
    elif width != len(names) and len(frame):
        many = "1 name" if len(names) == 1 else f"{len(names)} names"
        raise InputError(f"{path}: {many} in the header but {width} cells in its rows; name each column")
    frame.columns = names if len(frame.columns) == len(names) else frame.columns
    nameless = [i for i, name in enumerate(names) if not name or re.fullmatch(r"Unnamed: \d+.*", name)]
    empty = [
        i for i in nameless if len(frame) and (frame.iloc[:, i].isna().all() or (i and counts_rows(frame.iloc[:, i])))
    ]
    first = NAMELESS if 0 in nameless and 0 not in empty else None
    frame.columns = [first or name if i == 0 else name or f"Unnamed: {i}" for i, name in enumerate(names)]
    counted = first if first is not None and counts_rows(frame.iloc[:, 0]) else None
    return frame.iloc[:, [i for i in range(len(names)) if i not in set(empty)]], counted


def _notation(path: Path) -> _Notation:
    encoding, marked = _encoding(path), _hashes(path)
    comments: list[int] = []
    lines: list[tuple[int, str]] = []
    last_comment = ""
    with path.open(encoding=encoding, errors="replace") as file:
        for number, line in enumerate(file):
            if marked and line.lstrip().startswith("#"):
                comments.append(number)
                last_comment = line if not lines else last_comment
            elif len(lines) <= LOOK + PREAMBLE and line.strip():
                lines.append((number, line.rstrip("\r\n")))
            elif len(lines) > LOOK + PREAMBLE and not marked:
                break
    if not lines:
        raise InputError(
            f"{path}: no line of data in it; expected a row for each time and a column for each coordinate"
        )
    before = _preamble([line for _, line in lines])
    lines, above = lines[before:][: LOOK + 1], lines[before][0] if before else 0
    notes = [f"{path}: the lines above line {above + 1}, the header, are left out"] if before else []
    skipped = sorted({*comments, *range(above)})
    texts = [line for _, line in lines]
    separator = _separator(texts)
    decimal = "," if separator == ";" and any(re.search(r"(^|;)\s*-?\d+,\d", line) for line in texts[:5]) else "."
    headings, rows = _cells(texts[0], separator), [_cells(line, separator) for line in texts[1:]]
    example = _example(rows) if decimal == "," else ""
    _refuse_cut_short(path, encoding, separator, len(rows[0]) if rows else len(headings))
    if not _is_header(headings, rows, decimal):
        said = _cells(last_comment.strip().lstrip("#").strip(), separator) if last_comment else []
        named = len(said) == len(headings) == len(set(said)) and not _all_numbers(said, decimal)
        return _Notation(encoding, separator, decimal, said if named else None, skipped, 1, example)  # as of np.savetxt
    if texts[0].count('"') % 2:
        headings = _long_header(path, encoding, lines[0][0], separator) or headings
    twice = [name for name, count in Counter(headings).items() if name and count > 1]
    if twice:
        raise InputError(f"{path}: two columns are called {twice[0]!r}; rename one of them")
    skipped.append(lines[0][0])
    units = _are_units(rows, decimal)
    if units:
        skipped.append(lines[1][0])
        notes.append(f"{path}: line {lines[1][0] + 1}, below the header, holds no number where the others do: left out")
        rows = rows[1:]
    row_names = bool(rows) and all(len(row) == len(headings) + 1 and row[-1] for row in rows)
    first = 2 + above + units
    return _Notation(encoding, separator, decimal, headings, skipped, first, example, row_names, tuple(notes))


def _preamble(lines: list[str]) -> int:
    """How many lines come before the header: lines of text with fewer cells than the table.

    Spreadsheets fill such lines up with empty cells, which do not count.
    """
    for mark, padded in product("\t;,", (False, True)):
        counts = [len(_filled(_cells(line, mark)) if padded else _cells(line, mark)) for line in lines]
        width = Counter(counts).most_common(1)[0][0]
        if width > 1 and counts[0] < width:
            begin = next((k for k in range(len(counts) - 2) if counts[k : k + 3] == [width] * 3), 0)
            headings = _cells(lines[begin], mark)
            named = all(NAME.match(cell) or not VALUE.match(cell) for cell in headings)
            named = named and not any(map(_is_missing, headings[1:]))
            if named and all(count < width for count in counts[:begin]):
                return begin
    return 0


def _filled(cells: list[str]) -> list[str]:
    """Cells without the empty ones at the end."""
    return cells[: max((k + 1 for k, cell in enumerate(cells) if cell), default=0)]


def _are_units(rows: list[list[str]], decimal: str) -> bool:
    """Whether the first row holds text in every column in which the others hold numbers, and no value in any."""
    if len(rows) < 3 or len({len(row) for row in rows}) > 1:
        return False
    numbers = [all(_is_number(row[k], decimal) for row in rows[1:]) for k in range(len(rows[0]))]
    beside = [rows[0][k] for k, known in enumerate(numbers) if known]
    return bool(beside) and not any(map(_is_missing, beside)) and not any(VALUE.match(cell) for cell in rows[0])


def _is_missing(cell: str) -> bool:
    return cell.lower() in MISSING


def _is_number(cell: str, decimal: str) -> bool:
    return re.fullmatch(rf"[-+]?(\d+[{decimal}]?\d*|[{decimal}]\d+)([eE][-+]?\d+)?", cell) is not None


def _example(rows: list[list[str]]) -> str:
    """The first number with a comma, if each may have a decimal comma or one between thousands."""
    found = [cell for row in rows for cell in row if re.fullmatch(r"[-+]?[\d.]*\d,\d+", cell)]
    return found[0] if found and all(re.fullmatch(rf"[-+]?{THOUSANDS}", cell) for cell in found) else ""


def _long_header(path: Path, encoding: str, first: int, separator: str) -> list[str]:
    """The names in a header with a line break inside quotes."""
    with path.open(encoding=encoding, newline="") as file:
        for _ in range(first):
            file.readline()
        try:
            return [cell.strip() for cell in next(csv.reader(file, delimiter=separator), [])]
        except csv.Error:  # a quote that never ends
            return []


def _hashes(path: Path) -> bool:
    """Whether a file has the mark of a comment anywhere."""
    with path.open("rb") as file:
        return any(b"#" in block for block in iter(lambda: file.read(BLOCK), b""))


def _encoding(path: Path) -> str:
    with path.open("rb") as file:
        start = file.read(BLOCK)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if start.startswith(GZIP):
        raise InputError(f"{path}: compressed by gzip; unpack it first, as with gunzip")
    if b"\0" in start:
        raise InputError(f"{path}: not a text file; give it the suffix of what it is, or save it as CSV")
    try:
        _decode(path, "utf-8")
    except UnicodeDecodeError as error:
        try:
            _decode(path, WINDOWS)
        except UnicodeDecodeError:
            raise InputError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None
        return WINDOWS
    return "utf-8-sig"


def _decode(path: Path, encoding: str) -> None:
    """Refuse a file that is not text of that encoding; control characters are none."""
    decoder, at = codecs.getincrementaldecoder(encoding)(), 0
    with path.open("rb") as file:
        for block in iter(lambda: file.read(BLOCK), b""):
            try:
                text = decoder.decode(block)
            except UnicodeDecodeError as error:
                raise UnicodeDecodeError(encoding, b"", at + error.start, at + error.end, error.reason) from None
            if encoding == WINDOWS and CONTROL.search(text):
                raise UnicodeDecodeError(encoding, b"", at, at, "a control character")
            at += len(block)


def _separator(lines: list[str]) -> str:
    """The mark that splits the first lines into the same number of cells; a header may have one cell less."""
    for mark in ("\t", ";", ",", " "):
        counts = [len(_cells(line, mark)) for line in lines[:5]]
        rows = set(counts[1:] or counts)
        if len(rows) == 1 and rows != {1} and counts[0] in (*rows, *(count - 1 for count in rows)) and counts[0] > 1:
            return mark
    return ","


def _cells(line: str, separator: str) -> list[str]:
    if separator == " ":
        return [cell.strip('"') for cell in line.split()]
    try:
        return [cell.strip() for cell in next(csv.reader(io.StringIO(line), delimiter=separator), [])]
    except csv.Error:  # a quote that never ends, a cell beyond its limit, or a line break of another kind
        return line.split(separator)


def _is_header(first: list[str], rows: list[list[str]], decimal: str) -> bool:
    """Whether the first line names the columns."""
    if not _all_numbers(first, decimal):
        return True
    # As pandas writes it: no name over the row numbers, and columns that are called 0, 1, 2, ...
    counted = first[1:] == [str(i) for i in range(len(first) - 1)]
    return bool(rows) and not first[0] and counted and len(first) > 1 and all(row[:1] != [""] for row in rows)


def _all_numbers(cells: list[str], decimal: str) -> bool:
    """Whether a row holds numbers, gaps, or a date in front, as rows of data do."""
    for index, cell in enumerate(cells):
        if _is_missing(cell):
            continue
        try:
            float(cell.replace(decimal, "."))
        except ValueError:
            if not (index == 0 and re.match(r"\d{4}-\d{2}|\d{1,2}[./]\d{1,2}[./]\d{2,4}", cell)):
                return False
    return not all(map(_is_missing, cells))


def _ended(path: Path, encoding: str) -> bool:
    """Whether the last line has an end, which an interrupted copy, but also some programs, leave out."""
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read() in b"\r\n" or encoding == "utf-16"


def _refuse_cut_short(path: Path, encoding: str, separator: str, columns: int) -> None:
    """Refuse a last line without an end and with too few cells, which an interrupted copy leaves."""
    if encoding == "utf-16":
        return
    size, tail = path.stat().st_size, b""
    with path.open("rb") as file:
        while len(tail) < size and not re.search(rb"[\r\n]", tail):
            file.seek(max(0, size - len(tail) - BLOCK))
            tail = file.read(min(BLOCK, size - len(tail))) + tail
    last = re.split(rb"\n|\r", tail)[-1].decode(errors="replace")
    if last.strip() and len(tail) > len(last) and len(_cells(last, separator)) < columns:
        raise InputError(
            f"{path}: the last line ({last.strip()[:40]!r}) has {len(_cells(last, separator))} of {columns} cells; the "
            "file was cut short, so copy it again or remove that line"
        )
