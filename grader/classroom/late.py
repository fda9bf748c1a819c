"""Late days and penalties, by course.toml; a pure function of dates.

[due]
1 = 2027-02-12T23:59:00+01:00
[late]
per_day = 0.1              # the share of the points earned that a started day costs
grace_minutes = 15
most_days = 3              # after these days, the score is 0
free_days = 4              # per student, over all labs, spent in the order of the due dates
[extensions]
s0001 = { 1 = "48h" }
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .points import cents, line_of, read_toml

_LATE = ("per_day", "grace_minutes", "most_days", "free_days")
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Course:
    """The dates of a course and what a late day costs."""

    due: Mapping[int, datetime] = field(default_factory=dict)
    per_day: Decimal = Decimal(0)
    grace: timedelta = timedelta(0)
    most_days: int = 365
    free_days: int = 0
    extensions: Mapping[tuple[str, int], timedelta] = field(default_factory=dict)

    def check(self, labs: Collection[int]) -> None:
        """Raise UsageError if the free days that are left depend on a lab that is not in ``labs``."""
        last = max((self.due[lab] for lab in labs if lab in self.due), default=None)
        before = sorted(lab for lab, due in self.due.items() if last is not None and due < last and lab not in labs)
        if self.free_days and before:
            said = f"free days are spent in the order of the due dates, so penalties depend on lab {before[0]}, too"
            mend = "grade without --course, and then: python -m grader grades OUT1 OUT2 --course ..."
            raise UsageError(f"{said}; {mend}")

    def days(self, id: str, lab: int, time: datetime | None) -> int | None:
        """Return the number of started late days; None if the due date or the time is not known."""
        if lab not in self.due or time is None or time.tzinfo is None:
            return None
        late = time - self.due[lab] - self.extensions.get((id, lab), timedelta(0))
        return max(0, -(-(late - self.grace) // _DAY))

    def penalty(self, points: Decimal, days: int) -> Decimal:
        """Return the penalty for late days that are not free."""
        if days > self.most_days:
            return points
        return min(points, cents(points * self.per_day * days))


def read_course(path: Path | None) -> Course:
    """Read course.toml. Raises UsageError with line and example."""
    if path is None:
        return Course()
    found, text = read_toml(path)

    def no(key: str, said: str, example: str) -> UsageError:
        return UsageError(f"{path}, line {line_of(text, key)}: {said}; for example: {example}")

    if unknown := set(found) - {"due", "late", "extensions"}:
        raise no(min(unknown), f"{min(unknown)!r} is not [due], [late] or [extensions]", "[due]")
    due = {}
    for lab, when in found.get("due", {}).items():
        if not lab.isdigit() or type(when) is not datetime or when.tzinfo is None:
            raise no(lab, f"{lab} = {when} is not a lab and a date with a time zone", "1 = 2027-02-12T23:59:00+01:00")
        due[int(lab)] = when
    late: dict[str, Any] = {"per_day": 0, "grace_minutes": 0, "most_days": 365, "free_days": 0} | found.get("late", {})
    for name, value in late.items():
        share = name == "per_day" and type(value) in (int, Decimal) and 0 <= value <= 1
        if name not in _LATE or not (share or name != "per_day" and type(value) is int and value >= 0):
            said = f"{name} = {value}; [late] has per_day from 0 to 1, and whole numbers {', '.join(_LATE[1:])}"
            raise no(name, said, "per_day = 0.1")
    extensions = {}
    for id, labs in found.get("extensions", {}).items():
        for lab, long in labs.items() if type(labs) is dict else [("", labs)]:
            match = re.fullmatch(r"(\d{1,4}) ?([mhd])", str(long))
            if match is None or not lab.isdigit():
                raise no(id, f"{id}: {lab} = {long!r} is not a lab and a duration", 's0001 = { 1 = "48h" }')
            extensions[id, int(lab)] = int(match[1]) * _UNITS[match[2]]
    grace = timedelta(minutes=late["grace_minutes"])
    return Course(due, Decimal(late["per_day"]), grace, late["most_days"], late["free_days"], extensions)
