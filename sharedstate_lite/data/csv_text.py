"""Reads a CSV file into an Arrow table of strings.

The format is RFC 4180 in UTF-8, with a header line. A field can be quoted. A quoted field can contain line breaks, and
each quote inside it must be doubled. Blank lines are skipped, a byte order mark is allowed, and ``.gz`` files are
decompressed. An empty cell is NULL, and a quoted empty cell is the empty string. No other text is NULL.

Arrow reads the file, but it accepts two kinds of wrong quotes without an error. If a quote is not closed, it reads the
rest of the file as one field. If text follows a closing quote, it adds the text to the field. A file with quotes is
therefore first checked with Python's ``csv`` module in strict mode. The same check finds the line of an error if Arrow
rejects the file.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from ..errors import Error

_LONGEST = 1 << 26
"""The maximum number of bytes in one row."""


def read(path: Path, sep: str) -> pa.Table:
    """Return the file's cells as string columns, with names from its header.

    ``sep`` is the separator. Raises Error for an invalid file. The message names the file, row, line and rule.
    """
    content = _content(path)
    text = _decoded(path, content)
    header = _header(path, text, sep)
    if '"' in text:
        _check(path, text, sep)
    try:
        table = pyarrow.csv.read_csv(
            # Without a final line break, Arrow does not read an empty last cell as NULL if a quoted cell precedes it.
            io.BytesIO(content + b"\n"),
            read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=_LONGEST),
            parse_options=pyarrow.csv.ParseOptions(delimiter=sep, newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(header, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        _check(path, text, sep)
        raise Error(f"{path}: the file cannot be read as CSV ({error}). Save it again as CSV in UTF-8.") from error
    return table.rename_columns([name.strip() for name in table.column_names])


def line(path: Path, sep: str, row: int) -> int:
    """Return the number of the line on which data row ``row`` begins. Lines and data rows are numbered from 1."""
    records = _records(path, _decoded(path, _content(path)), sep)
    return next(number for at, (number, _) in enumerate(records) if at == row)


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix.lower() == ".gz" else content
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise Error(
            f"{path}: this is not a complete gzip file ({error}). Compress it again, or remove .gz from its name."
        ) from error
    except OSError as error:
        raise Error(
            f"{path}: the file cannot be read ({error.strerror}). Check that the path is a file that you can read."
        ) from error


def _decoded(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        what = "it is UTF-16" if utf16 else f"it contains the byte {error.object[error.start]:#04x}"
        number = error.object.count(b"\n", 0, error.start) + 1
        raise Error(f"{path}, line {number}: the text is not UTF-8 ({what}). Save the file as UTF-8.") from error


def _header(path: Path, text: str, sep: str) -> list[str]:
    lines = enumerate(io.StringIO(text), start=1)
    number, first = next(((number, line) for number, line in lines if line.strip("\r\n")), (0, ""))
    if sep not in first and (other := next((s for s in ",;\t|" if s in first), None)):
        raise Error(
            f"{path}, line {number}: the separator seems to be {other!r} instead of {sep!r}. Pass sep={other!r}."
        )
    number, names = next(_records(path, text, sep), (0, []))
    if not names:
        raise Error(f"{path}: the file is empty. A CSV file must start with a line of column names.")
    for at, name in enumerate(names, start=1):
        if not name.strip():
            rows = " To leave out row names, write it with index=False (pandas) or row.names=FALSE (R)."
            raise Error(
                f"{path}, line {number}: column {at} has no name. A CSV file must start with a line of column names."
                f"{rows if at == 1 else ''}"
            )
    return names


def _check(path: Path, text: str, sep: str) -> None:
    """Raise Error for the first row with a wrong quote or with more or fewer fields than the header."""
    columns = None
    for row, (number, fields) in enumerate(_records(path, text, sep)):
        columns = columns or len(fields)
        if len(fields) != columns:
            raise Error(
                f"{path}, row {row} (line {number}): the header has {columns} columns, but this row has {len(fields)} "
                "fields. Put quotes around each field that contains the separator."
            )


def _records(path: Path, text: str, sep: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the fields of each record, starting with the header. Raises Error for a wrong quote."""
    csv.field_size_limit(_LONGEST)  # the default limit of the csv module is 128 KiB
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=sep, strict=True)
    number, row = 1, 0
    try:
        for fields in reader:
            if fields:
                yield number, fields
                row += 1
            number = reader.line_num + 1
    except csv.Error as error:
        place = f"{path}, row {row} (line {number})" if row else f"{path}, line {number}"
        if "end of data" in str(error):
            raise Error(
                f"{place}: a quote is opened but never closed. Close it, or double it if it is part of the text."
            ) from error
        raise Error(
            f'{place}: text follows a closing quote. Double each quote inside a quoted field, as in "the ""big"" one".'
        ) from error
