"""Late days and penalties, by course.toml; a pure function of dates.

zone = "Europe/Berlin"     # late days end at the time of day of the due date; without it, they have 24 hours
[due]
1 = 2027-02-12T23:59:00    # without a zone, with its offset: 2027-02-12T23:59:00+01:00
[late]
per_day = 0.1              # the share of the points earned that a started day costs
grace_minutes = 15
most_days = 3              # after these days, free or not, the score is 0
free_days = 4              # per student, over all labs, spent in the order of the due dates
[extensions]
s0001 = { 1 = "2d" }       # days of the zone; "48h" are hours
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from ..errors import UsageError
from .points import Settings, cents

_LATE = ("per_day", "grace_minutes", "most_days", "free_days")
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1)}
_DAY = timedelta(days=1)
_NO_ZONES = "this machine has no list of time zones; install it, or leave zone out and give each date its offset"
_EXAMPLE = 'zone = "Europe/Berlin"'


@dataclass(frozen=True)
class Course:
    """The dates of a course and what a late day costs."""

    due: Mapping[int, datetime] = field(default_factory=dict)
    per_day: Decimal = Decimal(0)
    grace: timedelta = timedelta(0)
    most_days: int = 365
    free_days: int = 0
    extensions: Mapping[tuple[str, int], tuple[int, timedelta]] = field(default_factory=dict)
    """Days, and hours and minutes, by id and lab."""
    zone: ZoneInfo | None = None

    def check(self, labs: Collection[int]) -> None:
        """Raise UsageError if the free days that are left depend on a lab that is not in ``labs``."""
        last = max((self.due[lab] for lab in labs if lab in self.due), default=None)
        before = sorted(lab for lab, due in self.due.items() if last is not None and due < last and lab not in labs)
        if self.free_days and before:
            said = f"free days are spent in the order of the due dates, so penalties depend on lab {before[0]}, too"
            mend = "grade without --course, and then: python -m grader grades OUT1 OUT2 --course ..."
            raise UsageError(f"{said}; {mend}")

    def known(self, time: datetime | None) -> datetime | None:
        """Return a time with its zone. A time without one is in the course's; None if the course has none, either."""
        if time is None or time.tzinfo is not None:
            return time
        return None if self.zone is None else time.replace(tzinfo=self.zone)

    def days(self, id: str, lab: int, time: datetime | None) -> int | None:
        """Return the number of started late days; None if the due date or the time is not known.

        A day ends at the time of day of the due date, in its zone, so it has 23 to 25 hours if clocks change.
        """
        time = self.known(time)
        if lab not in self.due or time is None:
            return None
        days, rest = self.extensions.get((id, lab), (0, timedelta(0)))
        due = self.due[lab]
        zone = due.tzinfo
        due = due + days * _DAY if days else due  # a sum would forget which of two equal times it was
        due = (due.astimezone(UTC) + rest).astimezone(zone)
        late = (time.astimezone(UTC) - self.grace).astimezone(zone)
        if late.astimezone(UTC) <= due.astimezone(UTC):
            return 0
        return max(1, -(-(late.replace(tzinfo=None) - due.replace(tzinfo=None)) // _DAY))

    def penalty(self, points: Decimal, days: int, free: int = 0) -> Decimal:
        """Return the penalty for late days, of which some are free."""
        if days > self.most_days:
            return points
        return min(points, cents(points * self.per_day * (days - free)))


def read_course(path: Path | None) -> Course:
    """Read course.toml. Raises UsageError with line and example."""
    if path is None:
        return Course()
    file = Settings(path)
    found = file.values

    def no(key: str, table: str, rule: str, example: str) -> UsageError:
        return file.wrong(rule, key, table, f"for example: {example}")

    if unknown := set(found) - {"zone", "due", "late", "extensions"}:
        raise no(min(unknown), "", f"{min(unknown)!r} is not zone, [due], [late] or [extensions]", "[due]")
    zone = None
    if "zone" in found:
        try:
            zone = ZoneInfo(found["zone"])
        except (LookupError, ValueError, TypeError, OSError):
            names = available_timezones()
            said = f"zone = {found['zone']!r} is not the name of a time zone" if names else _NO_ZONES
            raise no("zone", "", said, _EXAMPLE if names else "python -m pip install tzdata") from None
    due = {}
    for lab, when in found.get("due", {}).items():
        if not lab.isdigit() or type(when) is not datetime or when.tzinfo is None and zone is None:
            said = f"{lab} = {when} is not a lab and a date with a time zone"
            raise no(lab, "due", said, f"1 = 2027-02-12T23:59:00+01:00, or {_EXAMPLE} in the first line")
        local = when.replace(tzinfo=zone) if when.tzinfo is None else when.astimezone(zone or when.tzinfo)
        if when.tzinfo is not None and local.utcoffset() != when.utcoffset():
            said = f"{lab} = {when.isoformat()} has another offset than {zone} on that day ({local:%z})"
            raise no(lab, "due", said, f"{lab} = {when.replace(tzinfo=None).isoformat()}")
        due[int(lab)] = local
    late: dict[str, Any] = {"per_day": 0, "grace_minutes": 0, "most_days": 365, "free_days": 0} | found.get("late", {})
    for name, value in late.items():
        share = name == "per_day" and type(value) in (int, Decimal) and 0 <= value <= 1
        if name not in _LATE or not (share or name != "per_day" and type(value) is int and value >= 0):
            said = f"{name} = {value}; [late] has per_day from 0 to 1, and whole numbers {', '.join(_LATE[1:])}"
            raise no(name, "late", said, "per_day = 0.1")
    extensions = {}
    for id, labs in found.get("extensions", {}).items():
        for lab, long in labs.items() if type(labs) is dict else [("", labs)]:
            match = re.fullmatch(r"(\d{1,4}) ?([mhd])", str(long))
            if match is None or not lab.isdigit():
                raise no(
                    id, "extensions", f"{id}: {lab} = {long!r} is not a lab and a duration", 's0001 = { 1 = "48h" }'
                )
            many, unit = int(match[1]), match[2]
            extensions[id, int(lab)] = (many, timedelta(0)) if unit == "d" else (0, many * _UNITS[unit])
    grace = timedelta(minutes=late["grace_minutes"])
    return Course(due, Decimal(late["per_day"]), grace, late["most_days"], late["free_days"], extensions, zone)
