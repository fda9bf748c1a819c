"""Fill scores into the export of an LMS, and pack feedback for it.

Canvas: the row of a student is found by SIS Login ID, SIS User ID or ID. Moodle: by Identifier, ID number or Email
address. Brightspace: by Username or OrgDefinedId. One column is used for the whole file. All other cells stay as they
are, with the delimiter, the line ends, the encoding and the byte order mark. The columns are those of Canvas's
lib/gradebook_exporter.rb, Moodle's mod/assign/gradingtable.php and Brightspace's public description.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from ..errors import UsageError
from .points import number
from .roster import decoded, folded

_KEYS = (
    *("SIS Login ID", "SIS User ID", "ID", "Identifier", "ID number", "Email address"),
    *("Username", "OrgDefinedId"),
)
_PARTICIPANT = ("Identifier", "ID")
"""Columns in which Moodle writes a word in its language before the number, such as "Participant 1000001"."""
_MAXIMUM = "maximum grade"
"""Moodle's column with the maximum, in small letters."""
_POSSIBLE = "Points Possible"
"""The first cell of Canvas's row with the maxima. A row "Manual Posting" can stand before it."""
_MAX_POINTS = re.compile(r".* <.*MaxPoints:([\d.,]+).*>")
"""Brightspace's name of a column, with the maximum."""
_TEST_STUDENT = "Student, Test"
"""Canvas adds this row for a teacher who has looked at the course as a student."""
_NO_VALUE = ("", "-")
_DECIMAL = re.compile(r"\d{1,3}(?:,\d{3})+(\.)\d+|\d{1,3}(?:\.\d{3})+(,)\d+|\d+([.,])(?!\d{3}$)\d+")
"""A number that shows its decimal mark. In 1,000, the comma may be one of thousands."""
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Filled:
    """The filled table, and what a teacher should know of it: ids or cells, with their old values or their lines."""

    content: bytes
    filled: int
    no_row: list[str]
    """Students with a score and without a row."""
    overwritten: list[str]
    kept: list[str]
    """Students without a grade whose row has an old value, which stays."""
    twice: list[str]
    """Students with two rows, which stay as they are."""
    unknown: list[str]
    """Rows of students who are not in the gradebook."""
    above: list[str]
    """Students with more than the maximum, which an LMS may refuse."""


@dataclass(frozen=True)
class _Row:
    """A row of the export, and its last line in the file."""

    cells: list[str]
    line: int


def fill(
    content: bytes, column: str, scores: Mapping[str, Decimal | None], of: Decimal, also: Mapping[str, str]
) -> Filled:
    """Fill the scores into a column. ``also``: an LMS's id for an id. Raises UsageError if a name or number is wrong.

    ``scores`` has None for a student without a grade. All are looked for in one column, and by the LMS's ids or their
    own, whichever finds most.

    >>> export = b"Identifier,Grade\\nParticipant 7,\\n"
    >>> fill(export, "Grade", {"s0001": Decimal(90)}, Decimal(100), {"s0001": "7"}).content
    b'Identifier,Grade\\nParticipant 7,90\\n'
    """
    try:
        text, encoding, delimiter = decoded(content)
    except UnicodeDecodeError:
        raise UsageError("the export is not a CSV file in UTF-8 or Windows-1252; export it again") from None
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        rows = [_Row(cells, reader.line_num) for cells in reader]
    except csv.Error as error:
        raise UsageError(f"the export is not a CSV file ({error}); export it again") from error
    header = rows[0].cells if rows else []
    keys = [header.index(key) for key in _KEYS if key in header]
    if not keys:
        said = f"the export has none of the columns {', '.join(_KEYS)}"
        raise UsageError(f"{said}; give the CSV file of Canvas, Moodle or Brightspace")
    if header.count(column) != 1:
        said = f"the export has {header.count(column) or 'no'} column {column!r}"
        raise UsageError(f"{said}; its columns are {', '.join(map(repr, header))}; name one of them with --column")
    at = header.index(column)
    body = [row for row in rows[1:] if len(row.cells) > max(at, *keys)]
    mark = _agreed(body, header, at, of, "," if delimiter == ";" else ".")
    words = {folded(also.get(id) or id): id for id in scores}, {folded(id): id for id in scores}
    tried = (_found(body, key, header, known) for key in keys for known in words)
    mine, unknown = max(tried, key=lambda found: len(found[0]))
    filled, twice = 0, []
    overwritten: list[str] = []
    kept: list[str] = []
    for id, those in mine.items():
        cells, score = those[0].cells, scores[id]
        old = cells[at].strip()
        there = [f"{id} ({old})"] if old not in _NO_VALUE else []
        if len(those) > 1:
            twice.append(f"{id} (lines {' and '.join(str(row.line) for row in those)})")
        elif score is None:
            kept += there
        else:
            overwritten += there if _value(old, mark) != score else []
            cells[at] = number(score).replace(".", mark)
            filled += 1
    out = io.StringIO(newline="")
    end = "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"
    csv.writer(out, delimiter=delimiter, lineterminator=end).writerows(row.cells for row in rows)
    no_row = sorted(id for id, score in scores.items() if score is not None and id not in mine)
    above = [f"{id} ({number(scores[id])})" for id in mine if (scores[id] or 0) > of]
    return Filled(out.getvalue().encode(encoding), filled, no_row, overwritten, kept, twice, unknown, above)


def _found(
    body: Sequence[_Row], key: int, header: Sequence[str], known: Mapping[str, str]
) -> tuple[dict[str, list[_Row]], list[str]]:
    """Return the rows of each student whose id is in a column, and the cells of the column that no student has."""
    mine: dict[str, list[_Row]] = {}
    unknown = []
    for row in body:
        cell = row.cells[key].removeprefix("#")  # Brightspace puts it before all ids
        bare = re.sub(r"^\D+(?=\d+$)", "", cell) if header[key] in _PARTICIPANT else cell
        if (id := known.get(folded(cell), known.get(folded(bare)))) is not None:
            mine.setdefault(id, []).append(row)
        elif cell.strip() and row.cells[0] != _TEST_STUDENT:
            unknown.append(f"{cell!r} (line {row.line})")
    return mine, unknown


def _agreed(body: Sequence[_Row], header: Sequence[str], at: int, of: Decimal, usual: str) -> str:
    """Return the decimal mark of the column. Raises UsageError if the LMS has another maximum than the lab."""
    possible = [row.cells[at] for row in body if row.cells[0].strip() == _POSSIBLE]
    students = [row.cells for row in body if row.cells[0].strip() != _POSSIBLE]
    places = [place for place, name in enumerate(header) if name.lower() == _MAXIMUM and header[at] == "Grade"]
    maxima = possible + [cells[place] for cells in students for place in places] + _MAX_POINTS.findall(header[at])
    shown = (_mark(cell) for cell in (*(cells[at] for cells in students), *maxima))
    mark = next(filter(None, shown), usual)
    for cell in maxima:
        most = _value(cell, mark)
        if most is not None and most != of:
            said = f"{header[at]!r} has a maximum of {number(most)}, and the lab has {number(of)} points"
            raise UsageError(f"{said}; set the maximum in the LMS, or the points in rubric.toml, and export again")
    return mark


def _mark(cell: str) -> str:
    """Return the decimal mark that a number shows; "" if it shows none.

    >>> [_mark(text) for text in ("87.5", "87,50", "1.000,00", "1,000", "100", "Sec 1, 2")]
    ['.', ',', ',', '', '', '']
    """
    match = _DECIMAL.fullmatch(re.sub(r"[-+\s'’]", "", cell))
    return "".join(filter(None, match.groups())) if match else ""


def _value(cell: str, mark: str) -> Decimal | None:
    """Return a number with this decimal mark, or the one that it shows; None if the cell is no number."""
    mark = _mark(cell) or mark
    text = re.sub(rf"[\s'’{'.' if mark == ',' else ','}]", "", cell).replace(mark, ".")
    return Decimal(text) if re.fullmatch(r"[+-]?\d+(\.\d*)?", text, re.A) else None


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
