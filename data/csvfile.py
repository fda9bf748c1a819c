"""A CSV file as a table of text, every cell as it was written.

Reads RFC 4180: quotes around fields, doubled inside them, line ends inside quotes; a
header first; blank lines skipped; UTF-8, a byte order mark allowed; ``.gz`` unpacked.
A quote in a field that does not begin with one is text.
An empty cell is NULL, a quoted empty one (``""``) the empty string. No other text is
NULL: ``NA``, ``null`` and ``nan`` are what they say. Refuses, naming file and line,
what is not such a file. Arrow reads; where it refuses, the file is read again, slowly,
to find the line.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.csv

from sharedstate_lite.errors import Error

_CHUNK = 1 << 22
_LONGEST = 1 << 26
"""Bytes that are read at a time; no row may be longer."""


def read(path: Path, sep: str) -> pa.Table:
    """The file's cells as string columns named by its header. Raises Error."""
    header = _header(path, sep)
    if not _plainly_quoted(path, sep):
        _refuse_quotes(path, sep)
    with _bytes(path) as file:
        try:
            table = pyarrow.csv.read_csv(
                _Ended(file),  # type: ignore[arg-type]
                read_options=pyarrow.csv.ReadOptions(block_size=_LONGEST),
                parse_options=pyarrow.csv.ParseOptions(delimiter=sep, newlines_in_values=True),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(header, pa.string()),
                    strings_can_be_null=True,
                    null_values=[""],
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as error:
            for _ in _records(path, sep, header):  # which names the line, if it knows one
                pass
            raise Error(f"{path}: it cannot be read as CSV ({error}); write it anew as UTF-8 CSV") from error
    return table.rename_columns([name.strip() for name in table.column_names])


class _Ended(io.BufferedIOBase):
    """A file with one line end more, which is a blank line where there was one.

    Without one Arrow takes a header for no file at all, and an empty last cell for a quoted one
    if the cell before it is quoted.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._end = file, b"\n"

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        content = self._file.read(-1 if size is None else size)
        if size is None or len(content) < size or size < 0:
            content, self._end = content + self._end, b""
        return content


def line(path: Path, sep: str, row: int) -> int:
    """The line, from 1, on which data row ``row``, from 1, begins."""
    for at, (number, _) in enumerate(_records(path, sep, None), start=0):
        if at == row:
            return number
    raise IndexError(row)


def _header(path: Path, sep: str) -> list[str]:
    first = next(_records(path, sep, None), None)
    if first is None:
        raise Error(f"{path}: the file is empty; a CSV starts with a line of column names")
    names = [name.strip() for name in first[1]]
    for at, name in enumerate(names, start=1):
        if not name:
            raise Error(f"{path}, line {first[0]}: column {at} has no name; a CSV starts with a line of column names")
    other = next((s for s in ",;\t|" if s != sep and s in first[1][0]), None)
    if len(names) == 1 and other:
        raise Error(
            f"{path}, line {first[0]}: the columns look separated by {other!r}, not by {sep!r}; "
            f"load it with sep={other!r}"
        )
    return first[1]


def _records(path: Path, sep: str, header: list[str] | None) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of each record, the header's first unless ``header`` is given.

    With a header, every record must have as many fields. Raises Error.
    """
    try:
        with _bytes(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text, _long_fields():
            reader = csv.reader(text, delimiter=sep)
            body = header is None
            begins = 1
            for fields in reader:
                number, begins = begins, reader.line_num + 1
                if not fields:
                    continue
                if not body:
                    body = True
                    continue
                if header is not None and len(fields) != len(header):
                    raise Error(
                        f"{path}, line {number}: the header names {len(header)} columns, "
                        f"the fields here number {len(fields)}; quote a field that holds the separator"
                    )
                yield number, fields
    except UnicodeDecodeError as error:
        raise Error(_not_utf8(path)) from error


def _plainly_quoted(path: Path, sep: str) -> bool:
    """Whether all quotes are in pairs of an opening and a closing one, doubled ones among them.

    Seen by each quote's neighbour, with no look at the rest: outside quotes the next one opens a field, so
    a separator, a line end or a quote (then the two are a doubled one) is before it; inside, it closes one, or
    is the first of two, and has such a neighbour behind it. False says no more than that the quotes need a reader.
    """
    edges = np.zeros(256, dtype=np.bool_)
    edges[list(f'{sep}\r\n"'.encode())] = True
    quotes = 0
    with _bytes(path) as file:
        # The file's ends are edges too. A chunk's last byte waits for its neighbour, with the one before it.
        left = b"\n"
        chunk = file.read(_CHUNK).removeprefix(codecs.BOM_UTF8)
        while left:
            content = left + (chunk or b"\n")
            if b'"' in content:
                seen = np.frombuffer(content, dtype=np.uint8)
                at = np.flatnonzero(seen[1:-1] == ord('"')) + 1
                outside, inside = at[quotes % 2 :: 2], at[1 - quotes % 2 :: 2]
                if not (edges[seen[outside - 1]].all() and edges[seen[inside + 1]].all()):
                    return False
                quotes += len(at)
            left = content[-2:] if chunk else b""
            chunk = file.read(_CHUNK)
    return quotes % 2 == 0


def _refuse_quotes(path: Path, sep: str) -> None:
    """Refuse a quote that is never closed, and text after one that is.

    Arrow takes all that follows the one for one field, and the other for a part of the field, without a word.
    """
    with (
        _bytes(path) as file,
        io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace", newline="") as text,
        _long_fields(),
    ):
        reader = csv.reader(text, delimiter=sep, strict=True)
        begins, records = 1, 0
        try:
            for fields in reader:
                begins = reader.line_num + 1
                records += bool(fields)
        except csv.Error as error:
            where = f"{path}, row {records} (line {begins})" if records else f"{path}, line {begins}"
            if "end of data" in str(error):
                raise Error(f"{where}: a quote is opened and never closed; close or double it") from error
            raise Error(
                f"{where}: text follows a closing quote, where a field ends; "
                'double each quote that is part of a quoted field, as in "the ""big"" one"'
            ) from error


@contextmanager
def _long_fields() -> Iterator[None]:
    """Fields of any length for the csv module meanwhile; its own limit is 128 KiB."""
    limit = csv.field_size_limit(1 << 30)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _not_utf8(path: Path) -> str:
    number = 1
    with _bytes(path) as file:
        for number, content in enumerate(iter(file.readline, b""), start=1):
            try:
                content.decode("utf-8")
            except UnicodeDecodeError as error:
                wide = number == 1 and content[:2] in (b"\xff\xfe", b"\xfe\xff")
                what = "it is UTF-16" if wide else f"byte {error.start + 1} of the line is {content[error.start]:#04x}"
                return f"{path}, line {number}: the text is not UTF-8 ({what}); save it as UTF-8"
    return f"{path}, line {number}: the text is not UTF-8; save it as UTF-8"


@contextmanager
def _bytes(path: Path) -> Iterator[IO[bytes]]:
    packed = path.suffix.lower() == ".gz"
    try:
        with gzip.open(path) if packed else path.open("rb") as file:
            yield file  # type: ignore[misc]
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None)
        # What has no reason of the system's is about what is in the file.
        mend = "; pack it anew with gzip, or leave .gz off the name of a file that is not packed" if not reason else ""
        raise Error(f"{path}: it cannot be read ({reason or error}){mend}") from error
