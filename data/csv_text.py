"""A CSV file as an Arrow table of strings.

The format is RFC 4180 in UTF-8: a header line, quotes around fields, quotes doubled inside them, line ends inside
quotes; blank lines are skipped, a byte order mark is allowed, ``.gz`` is decompressed. An empty cell is NULL and a
quoted empty cell is the empty string; no other text is NULL.

Arrow reads the file. It takes everything after an unclosed quote as one field, and text after a closing quote as part
of the field, without an error. So a file with quotes is first read by Python's strict ``csv`` module, which also finds
the line if Arrow refuses the file.
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

from sharedstate_lite.errors import Error

_LONGEST = 1 << 26
"""The most bytes in one row."""


def read(path: Path, sep: str) -> pa.Table:
    """The file's cells as string columns named by its header. Raises Error with file, row, line and rule."""
    content = _content(path)
    text = _decoded(path, content)
    header = _header(path, text, sep)
    if '"' in text:
        _check(path, text, sep)
    try:
        table = pyarrow.csv.read_csv(
            # Arrow needs the last line end: without it, an empty last cell would not be NULL after a quoted one.
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
        raise Error(f"{path}: it cannot be read as CSV ({error}); save it again as UTF-8 CSV") from error
    return table.rename_columns([name.strip() for name in table.column_names])


def line(path: Path, sep: str, row: int) -> int:
    """The line, from 1, on which data row ``row``, from 1, begins."""
    records = _records(path, _decoded(path, _content(path)), sep)
    return next(number for at, (number, _) in enumerate(records) if at == row)


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix.lower() == ".gz" else content
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise Error(
            f"{path}: it is not a whole gzip file ({error}); compress it again, or remove .gz from its name"
        ) from error
    except OSError as error:
        raise Error(f"{path}: it cannot be read ({error.strerror}); make it a file that you may read") from error


def _decoded(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        what = "it is UTF-16" if utf16 else f"it has the byte {error.object[error.start]:#04x}"
        number = error.object.count(b"\n", 0, error.start) + 1
        raise Error(f"{path}, line {number}: the text is not UTF-8 ({what}); save the file as UTF-8") from error


def _header(path: Path, text: str, sep: str) -> list[str]:
    number, names = next(_records(path, text, sep), (0, []))
    if not names:
        raise Error(f"{path}: the file is empty; a CSV starts with a line of column names")
    for at, name in enumerate(names, start=1):
        if not name.strip():
            raise Error(f"{path}, line {number}: column {at} has no name; a CSV starts with a line of column names")
    if len(names) == 1 and (other := next((s for s in ",;\t|" if s in names[0]), None)):
        raise Error(
            f"{path}, line {number}: its columns are separated by {other!r}, not by {sep!r}; load it with sep={other!r}"
        )
    return names


def _check(path: Path, text: str, sep: str) -> None:
    """Raise Error for the first row that breaks a rule of quotes or has more or fewer fields than the header."""
    columns = None
    for row, (number, fields) in enumerate(_records(path, text, sep)):
        columns = columns or len(fields)
        if len(fields) != columns:
            raise Error(
                f"{path}, row {row} (line {number}): the header has {columns} columns, this row has {len(fields)} "
                "fields; quote a field that contains the separator"
            )


def _records(path: Path, text: str, sep: str) -> Iterator[tuple[int, list[str]]]:
    """The line number and the fields of each record, the header first. Raises Error for a wrong quote."""
    csv.field_size_limit(_LONGEST)  # the csv module's own limit is 128 KiB
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
                f"{place}: a quote is opened and never closed; close it, or double it inside a quoted field"
            ) from error
        raise Error(
            f'{place}: text follows a closing quote; double each quote inside a quoted field, as in "the ""big"" one"'
        ) from error
