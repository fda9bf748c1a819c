"""Fill scores into the export of an LMS, and pack feedback for it.

Canvas: the row of a student is found by SIS Login ID, SIS User ID or ID. Moodle: by Identifier or Email address. Every
other cell, the delimiter, quotes, line ends and a byte order mark stay as they are.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

from ..errors import UsageError
from .points import number
from .roster import folded

_KEYS = ("SIS Login ID", "SIS User ID", "ID", "Identifier", "Email address")
_PARTICIPANT = ("Identifier", "ID")
"""Columns in which Moodle writes a word in its language before the number, such as "Participant 1000001"."""
_MOSTS = ("Maximum Grade", "Maximum grade")
_POSSIBLE = "Points Possible"
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Filled:
    """The filled table, and who is in only one of the two."""

    content: bytes
    filled: int
    no_row: list[str]
    """Students with a score and without a row."""


@dataclass
class _Cell:
    raw: str
    end: str

    @property
    def value(self) -> str:
        text = self.raw.strip()
        return text[1:-1].replace('""', '"') if text.startswith('"') and len(text) > 1 else text


def fill(content: bytes, column: str, scores: Mapping[str, Decimal], of: Decimal, also: Mapping[str, str]) -> Filled:
    """Fill the scores into a column. ``also``: an LMS's id for an id. Raises UsageError if a name or number is wrong.

    >>> export = b"Identifier,Grade\\nParticipant 7,\\n"
    >>> fill(export, "Grade", {"s0001": Decimal(90)}, Decimal(100), {"s0001": "7"}).content
    b'Identifier,Grade\\nParticipant 7,90\\n'
    """
    text, mark, encoding = _decoded(content)
    delimiter = max(",;\t", key=re.sub(r'"[^"]*"', "", text.split("\n", 1)[0]).count)
    rows = _cells(text, delimiter)
    header = [cell.value for cell in rows[0]] if rows else []
    keys = [header.index(key) for key in _KEYS if key in header]
    if not keys:
        raise UsageError(
            f"the export has none of the columns {', '.join(_KEYS)}; give the CSV file of Canvas or Moodle"
        )
    if header.count(column) != 1:
        said = f"the export has {header.count(column) or 'no'} column {column!r}"
        raise UsageError(f"{said}; its columns are {', '.join(map(repr, header))}; name one of them with --column")
    at = header.index(column)
    known = {folded(word): id for id in scores for word in (also.get(id, ""), id) if word}
    comma, done = delimiter == ";" and bool(re.search(r"(?:^|;)\d+,\d+(?:;|\r?$)", text, re.M)), set()
    for row in rows[1:]:
        if len(row) <= max(at, *keys):
            continue
        _agree(row, header, at, column, of)
        words = [row[key].value for key in keys]
        words += [re.sub(r"^\D+(?=\d+$)", "", row[key].value) for key in keys if header[key] in _PARTICIPANT]
        id = next((known[folded(word)] for word in words if folded(word) in known), None)
        if id is not None:
            done.add(id)
            row[at].raw = number(scores[id]).replace(".", "," if comma else ".")
    new = "".join(cell.raw + cell.end for row in rows for cell in row)
    return Filled(mark + new.encode(encoding), len(done), sorted(set(scores) - done))


def _agree(row: Sequence[_Cell], header: Sequence[str], at: int, column: str, of: Decimal) -> None:
    """Raise UsageError if the LMS has another maximum than the lab, because its scores would be wrong."""
    places = [header.index(name) for name in _MOSTS if name in header and column.lower() == "grade"]
    if row[0].value.strip() == _POSSIBLE:
        places = [at]
    for place in places:
        try:
            most = Decimal(row[place].value.replace(",", "."))
        except InvalidOperation:
            continue
        if most != of:
            said = f"{column!r} has a maximum of {number(most)}, and the lab has {number(of)} points"
            raise UsageError(f"{said}; set the maximum in the LMS, or the points in rubric.toml, and export again")


def _decoded(content: bytes) -> tuple[str, bytes, str]:
    """Return the text of a file, its byte order mark and its encoding."""
    marks = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"), (b"", "utf-8"))
    mark, encoding = next(pair for pair in marks if content.startswith(pair[0]))
    try:
        return content[len(mark) :].decode(encoding), mark, encoding
    except UnicodeDecodeError as error:
        raise UsageError(f"the export is not {encoding.upper()} ({error}); export it again as CSV") from error


def _cells(text: str, delimiter: str) -> list[list[_Cell]]:
    """Return the cells of each row, as they are written."""
    pattern = re.compile(rf'( *"(?:[^"]|"")*"[^{delimiter}\r\n]*|[^{delimiter}\r\n]*)({delimiter}|\r\n|\n|\r|$)')
    rows: list[list[_Cell]] = [[]]
    at = 0
    while at < len(text):
        match = pattern.match(text, at)
        assert match is not None
        rows[-1].append(_Cell(match[1], match[2]))
        at = match.end()
        if match[2] == delimiter and at == len(text):
            rows[-1].append(_Cell("", ""))
        if match[2] != delimiter and at < len(text):
            rows.append([])
    return rows


def feedback_zip(folder: Path, entries: Mapping[str, str]) -> bytes:
    """Return a zip of all feedback pages. ``entries``: the folder of each student in the LMS, by id."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        for page in sorted((folder / "submissions").glob("*/feedback.html")):
            top = entries.get(page.parent.name, page.parent.name)
            match = re.match(r".*_\d+_assignsubmission_file_", top, re.S)
            info = zipfile.ZipInfo(f"{match[0] if match else page.parent.name}/feedback.html", _EPOCH)
            info.external_attr, info.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            packed.writestr(info, page.read_bytes())
    return out.getvalue()
