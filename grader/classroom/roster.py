"""The students of a class, from roster.csv: id, name, team, lms_id. Only the column id is required."""

from __future__ import annotations

import codecs
import csv
import io
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import UsageError

_LONGEST = 100
_NUMBER = re.compile(r"\d+([.,]\d+)?[eE]\+\d+|\d+[.,]0+")
"""What a spreadsheet makes of the digits of an id, such as 1.23E+06 or 1234567.0."""
_DIGITS = 15
"""The number of digits that a spreadsheet keeps."""
_EXAMPLE = "for example:\nid,name,lms_id\ns0001,Student 1,1234567"


@dataclass(frozen=True)
class Student:
    """A line of the roster."""

    id: str
    name: str = ""
    team: str = ""
    lms_id: str = ""
    doubt: str = ""
    """What a spreadsheet may have done to the ids."""


def folded(id: str) -> str:
    """Return an id such that two ids that a reader cannot tell apart are equal."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", id).casefold())


def wrong_id(id: str) -> str:
    """Return what is wrong with an id; "" if it can be used as the name of a folder and in a spreadsheet."""
    if not id:
        return "is empty"
    if len(id) > _LONGEST:
        return f"has {len(id)} characters; the limit is {_LONGEST}"
    if "/" in id or id[0] in ".=+-@" or not id.isprintable():
        return 'contains "/" or an invisible character, or starts with one of . = + - @'
    return ""


def read_table(path: Path, needed: tuple[str, ...], example: str) -> list[tuple[int, dict[str, str]]]:
    """Return the rows of a CSV file with a header, each with its line. Raises UsageError with an example.

    Spreadsheets write it in UTF-8, UTF-16 or Windows-1252, and with commas, semicolons or tabs. The names of columns
    are returned in small letters. Rows without a value are left out.
    """
    try:
        text, _, delimiter = decoded(path.read_bytes())
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        header = [name.strip().lower() for name in next(lines, [])]
        rows = [(lines.line_num, [cell.strip() for cell in row]) for row in lines]
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path} is not a CSV file in UTF-8 ({error}); {example}") from error
    if missing := [name for name in needed if name not in header]:
        raise UsageError(f"{path} has no column {missing[0]!r}, but {', '.join(header) or 'no columns'}; {example}")
    short = [(line, [*row, *[""] * (len(header) - len(row))]) for line, row in rows if any(row)]
    return [(line, dict(zip(header, row, strict=False))) for line, row in short]


def decoded(content: bytes) -> tuple[str, str, str]:
    """Return the text of a CSV file, its encoding and its delimiter, as spreadsheets write them.

    Excel writes Windows-1252 if it is not told to write UTF-8. Raises UnicodeDecodeError if the file is no text.

    >>> decoded(b"id;name\\ns1;caf\\xe9")
    ('id;name\\ns1;café', 'cp1252', ';')
    """
    encoding = "utf-8-sig" if content.startswith(codecs.BOM_UTF8) else "utf-8"
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        encoding, text = "cp1252", content.decode("cp1252")
    header = re.sub(r'"[^"]*"', "", text.lstrip().partition("\n")[0])
    return text, encoding, max(",;\t", key=header.count)


def read_roster(path: Path) -> tuple[dict[str, Student], list[str]]:
    """Return the students by id, and what is wrong with the roster. Print which ids a spreadsheet may have changed.

    A line with an id that cannot be one, or that an earlier line has, is left out. A number of the LMS that two
    students have is not used. Ids are equal if they look equal. Raises UsageError if no student is left.
    """
    lines: dict[str, int] = {}
    students: dict[str, Student] = {}
    wrong = []
    for line, row in read_table(path, ("id",), _EXAMPLE):
        one = Student(*(row.get(name, "") for name in ("id", "name", "team", "lms_id")))
        said = [
            f"the {what} {id!r} {why}"
            for what, id in (("id", one.id), ("team", one.team or one.id))
            if (why := wrong_id(id))
        ]
        if folded(one.id) in lines:
            said.append(f"the id {one.id!r} stands in line {lines[folded(one.id)]}, too")
        if said:
            wrong.append(f"{path}, line {line}: {said[0]}; the line is left out")
        else:
            lines[folded(one.id)] = line
            students[one.id] = one
    if not students:
        raise UsageError(f"{wrong[0] if wrong else f'{path} has no students'}; {_EXAMPLE}")
    numbers = Counter(word for one in students.values() for word in {folded(one.id), folded(one.lms_id)})
    for one in students.values():
        if one.lms_id and numbers[folded(one.lms_id)] > 1:
            place = f"{path}, line {lines[folded(one.id)]}"
            wrong.append(f"{place}: another student has the lms_id {one.lms_id!r}, too; it is not used")
            students[one.id] = replace(one, lms_id="")
    lengths = Counter(map(len, students))
    usual = max(lengths, key=lengths.__getitem__, default=0)
    shorter = max(lengths, default=0) == usual and 2 * lengths[usual] > len(students)
    for one in students.values():
        doubts = [_doubt("id", one.id, usual if shorter else 0), _doubt("lms_id", one.lms_id, 0)]
        if doubt := "; ".join(filter(None, doubts)):
            print(f"note: {path}, line {lines[folded(one.id)]}: {doubt}", file=sys.stderr)
            students[one.id] = replace(one, doubt=doubt)
    return students, wrong


def _doubt(column: str, id: str, usual: int) -> str:
    """Return what a spreadsheet may have done to an id; "" if nothing. ``usual``: the length of most ids, or 0."""
    if _NUMBER.fullmatch(id):
        return f"the {column} {id!r} is a number that a spreadsheet has rounded or changed"
    if id.isdecimal() and len(id) > _DIGITS:
        return f"the {column} {id!r} has {len(id)} digits, and a spreadsheet keeps only {_DIGITS}"
    if id.isdecimal() and len(id) < usual:
        return f"the {column} {id!r} is shorter than the others: a spreadsheet may have removed zeros before it"
    return ""


def known_ids(roster: Mapping[str, Student], teams: bool = False) -> dict[str, str]:
    """Return what each word in the name of a submission stands for: the id of a student, or with ``teams`` a team.

    A student without a team is a team of one. Raises UsageError if a word stands for two teams.

    >>> students = {one.id: one for one in (Student("s0001", team="red"), Student("s0002", lms_id="77"))}
    >>> known_ids(students, teams=True)
    {'red': 'red', 's0001': 'red', 's0002': 's0002', '77': 's0002'}
    """
    found: dict[str, str] = {}
    for one in roster.values():
        id = (one.team or one.id) if teams else one.id
        for word in (id, one.id, one.lms_id):
            if word and found.setdefault(folded(word), id) != id:
                said = f"the roster has {word!r} for {found[folded(word)]!r} and for {id!r}"
                raise UsageError(
                    f"{said}; a team needs a name that no other team or student has, in any case of letters"
                )
    return found
