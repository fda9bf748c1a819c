"""Fill scores into the export of an LMS, and pack feedback for it.

Canvas: the row of a student is found by SIS Login ID, SIS User ID or ID. Moodle: by Identifier, ID number or Email
address. All other cells stay as they are, with the delimiter, the line ends and the byte order mark. The columns are
those of Canvas's lib/gradebook_exporter.rb and Moodle's mod/assign/gradingtable.php.
"""

from __future__ import annotations

import csv
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

_KEYS = ("SIS Login ID", "SIS User ID", "ID", "Identifier", "ID number", "Email address")
_PARTICIPANT = ("Identifier", "ID")
"""Columns in which Moodle writes a word in its language before the number, such as "Participant 1000001"."""
_MAXIMUM = "maximum grade"
"""Moodle's column with the maximum, in small letters."""
_POSSIBLE = "Points Possible"
"""The first cell of Canvas's row with the maxima. A row "Manual Posting" can stand before it."""
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Filled:
    """The filled table, and who is in only one of the two."""

    content: bytes
    filled: int
    no_row: list[str]
    """Students with a score and without a row."""


def fill(content: bytes, column: str, scores: Mapping[str, Decimal], of: Decimal, also: Mapping[str, str]) -> Filled:
    """Fill the scores into a column. ``also``: an LMS's id for an id. Raises UsageError if a name or number is wrong.

    >>> export = b"Identifier,Grade\\nParticipant 7,\\n"
    >>> fill(export, "Grade", {"s0001": Decimal(90)}, Decimal(100), {"s0001": "7"}).content
    b'Identifier,Grade\\nParticipant 7,90\\n'
    """
    try:
        text = content.decode()
        mark = text[: text.startswith("\ufeff")]
        first = re.sub(r'"[^"]*"', "", text.partition("\n")[0])
        delimiter = max(",;\t", key=first.count)
        rows = list(csv.reader(io.StringIO(text.removeprefix(mark), newline=""), delimiter=delimiter))
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"the export is not a CSV file in UTF-8 ({error}); export it again") from error
    header = rows[0] if rows else []
    keys = [header.index(key) for key in _KEYS if key in header]
    if not keys:
        said = f"the export has none of the columns {', '.join(_KEYS)}"
        raise UsageError(f"{said}; give the CSV file of Canvas or Moodle")
    if header.count(column) != 1:
        said = f"the export has {header.count(column) or 'no'} column {column!r}"
        raise UsageError(f"{said}; its columns are {', '.join(map(repr, header))}; name one of them with --column")
    at, done = header.index(column), set()
    known = {folded(word): id for id in scores for word in (also.get(id, ""), id) if word}
    comma = any(re.fullmatch(r"\d+,\d+", cell) for row in rows for cell in row)
    for row in rows[1:]:
        if len(row) <= max(at, *keys):
            continue
        _agree(row, header, at, column, of)
        words = [row[key] for key in keys]
        words += [re.sub(r"^\D+(?=\d+$)", "", row[key]) for key in keys if header[key] in _PARTICIPANT]
        id = next((known[folded(word)] for word in words if folded(word) in known), None)
        if id is not None:
            done.add(id)
            row[at] = number(scores[id]).replace(".", "," if comma else ".")
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter, lineterminator="\r\n" if first.endswith("\r") else "\n").writerows(rows)
    return Filled((mark + out.getvalue()).encode(), len(done), sorted(set(scores) - done))


def _agree(row: Sequence[str], header: Sequence[str], at: int, column: str, of: Decimal) -> None:
    """Raise UsageError if the LMS has another maximum than the lab, because its scores would be wrong."""
    places = [place for place, name in enumerate(header) if name.lower() == _MAXIMUM and column == "Grade"]
    if row[0].strip() == _POSSIBLE:
        places = [at]
    for place in places:
        try:
            most = Decimal(row[place].replace(",", "."))
        except InvalidOperation:
            continue
        if most != of:
            said = f"{column!r} has a maximum of {number(most)}, and the lab has {number(of)} points"
            raise UsageError(f"{said}; set the maximum in the LMS, or the points in rubric.toml, and export again")


def feedback_zip(files: Mapping[str, Mapping[str, Path]], entries: Mapping[str, str]) -> bytes:
    """Return a zip of all feedback pages.

    ``files``: each student's files by their names in the zip, by id; ``entries``: their folders in the LMS, by id.
    """
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        for id in sorted(files):
            match = re.match(r".*_\d+_assignsubmission_file", entries.get(id, ""), re.S)
            top = f"{match[0]}_" if match else id  # all versions of Moodle take the last underscore
            for name, path in files[id].items():
                info = zipfile.ZipInfo(f"{top}/{name}", _EPOCH)
                info.external_attr, info.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
                packed.writestr(info, path.read_bytes())
    return out.getvalue()
