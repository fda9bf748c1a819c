"""When submissions were handed in, by a table: times.csv (id, lab, time), or the grading worksheet of Moodle.

Moodle and Canvas write no times into the names of files. The columns of Moodle are those of its
mod/assign/gradingtable.php.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from .roster import folded, read_table

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLOCK = r"(?P<hour>\d{1,2}):?(?P<minute>\d\d)(:(?P<second>\d\d))?( (?P<half>[AP])M)?"
_FORMS = (
    rf"(?P<day>\d{{1,2}})([.-])(?P<month>\d{{1,2}})\2(?P<year>\d{{4}}),? {_CLOCK}",
    rf"([A-Z][a-z]+, )?(?P<day>\d{{1,2}}) (?P<name>[A-Z][a-z]{{2}})[a-z]* (?P<year>\d{{4}}), {_CLOCK}",
    rf"(?P<name>[A-Z][a-z]{{2}})[a-z]* (?P<day>\d{{1,2}}), (?P<year>\d{{4}}) {_CLOCK}",
)
"""Besides ISO 8601: spreadsheets in German and Dutch; Moodle; Brightspace. With a slash, the month may be first."""
_MOODLE_ID, _MOODLE_TIME = "identifier", "last modified (submission)"
_NO_TIME = ("", "-")
_EXAMPLE = "for example:\nid,lab,time\ns0001,1,2027-02-12 23:10"


@dataclass(frozen=True)
class Times:
    """The times of a table, by id and lab. They may have no zone. An id may be the LMS's."""

    rows: Mapping[tuple[str, int], datetime] = field(default_factory=dict)
    wrong: Sequence[str] = ()
    """What is wrong with lines that are left out."""
    places: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """The file and line of each time."""

    def of(self, lab: int, ids: Iterable[str], roster: Mapping[str, str]) -> dict[str, datetime]:
        """Return the times of a lab by the student's id. ``roster``: the LMS's id for an id.

        >>> Times({("77", 1): datetime(2027, 2, 12)}).of(1, ["s0001"], {"s0001": "77"})
        {'s0001': datetime.datetime(2027, 2, 12, 0, 0)}
        """
        mine = {id: time for (id, number), time in self.rows.items() if number == lab}
        both = {id: (folded(id), folded(roster.get(id, ""))) for id in ids}
        return {id: mine[word] for id, words in both.items() for word in words if word in mine}

    def unknown(self, lab: int, ids: Iterable[str], roster: Mapping[str, str]) -> list[str]:
        """Return the lines of a lab whose id is no student's."""
        known = {folded(word) for id in ids for word in (id, roster.get(id, ""))}
        mine = [(id, place) for (id, number), place in self.places.items() if number == lab and id not in known]
        return [f"{place}: lab {lab} has no student {id!r}; correct the id" for id, place in mine]


def read_times(path: Path | None, lab: int) -> Times:
    """Read times.csv, or Moodle's worksheet, whose times are those of ``lab``.

    A line with a wrong cell is left out, and so is the second one of an id. Raises UsageError if a column is missing.
    """
    if path is None:
        return Times()
    lines = read_table(path, (), _EXAMPLE)
    moodle = bool(lines) and {_MOODLE_ID, _MOODLE_TIME} <= set(lines[0][1])
    if not moodle:
        lines = read_table(path, ("id", "lab", "time"), _EXAMPLE)
    rows: dict[tuple[str, int], datetime] = {}
    places: dict[tuple[str, int], str] = {}
    wrong = []
    for line, row in lines:
        place = f"{path.name}, line {line}"
        names = (_MOODLE_ID, "", _MOODLE_TIME) if moodle else ("id", "lab", "time")
        id, number, text = (row.get(name, str(lab)) for name in names)
        key = (folded(id.rpartition(" ")[2] if moodle else id), int(number) if number.isdecimal() else 0)
        if text in _NO_TIME:
            continue
        if (time := parsed(text)) is None:
            why = f", column {names[2]!r}: {text!r} is not a time, such as 2027-02-12 23:10"
        elif not key[1]:
            why = f", column 'lab': {number!r} is not the number of a lab"
        elif key in rows:
            why = f": {places[key]} has a time of {id!r}, too"
        else:
            rows[key], places[key] = time, place
            continue
        wrong.append(f"{place}{why}; the line is left out")
    return Times(rows, wrong, places)


def parsed(text: str) -> datetime | None:
    """Return a time, in its zone if it names one; None if the text is something else.

    >>> [str(parsed(text)) for text in ("2027-02-12T22:59+01:00", "12.02.2027 22:59", "12 February 2027, 10:59 PM")]
    ['2027-02-12 22:59:00+01:00', '2027-02-12 22:59:00', '2027-02-12 22:59:00']
    """
    try:
        return datetime.fromisoformat(re.sub(r" ?(UTC|Z)$", "+00:00", text)) if ":" in text else _local(text)
    except ValueError:
        return _local(text)


def _local(text: str) -> datetime | None:
    match = next(filter(None, (re.fullmatch(form, text) for form in _FORMS)), None)
    if match is None:
        return None
    got = {name: value for name, value in match.groupdict().items() if value}
    hour = int(got["hour"]) % 12 + 12 * (got["half"] == "P") if "half" in got else int(got["hour"])
    try:
        month = _MONTHS.index(got["name"].lower()) + 1 if "name" in got else int(got["month"])
        return datetime(int(got["year"]), month, int(got["day"]), hour, int(got["minute"]), int(got.get("second", 0)))
    except ValueError:
        return None
