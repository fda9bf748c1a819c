"""Points of a result, by the bundle's points and the teacher's rubric.toml; a pure function of both.

[points]
"max.second" = 15
[policy]
hidden = "rule"            # what feedback shows of a failed hidden check: nothing, its rule, or rule and trace
unreadable = "empty"       # the score of an unreadable submission: "empty" or 0
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..outcomes import Outcome
from ..toml import Toml
from .results import GRADED, UNREADABLE, Found
from .roster import read_table

NOTHING, RULE, TRACE = "nothing", "rule", "trace"
_EXAMPLE = 'for example:\n[points]\n"max.second" = 15'
_CENT = Decimal("0.01")
_CELLS = {
    "lab": (r"[1-9]\d{0,3}", "the number of a lab"),
    "points": (r"[+-]?\d{1,4}(\.\d+|,\d\d?)?", "a number of points, such as -2.5"),
    "over": ("(yes|no)?", "yes or no"),
}
"""The form of cells in adjust.csv. A comma before three digits may be one of thousands."""


@dataclass(frozen=True)
class Rubric:
    """Points that differ from those of the bundles, and policies."""

    points: Mapping[str, Decimal]
    hidden: str = RULE
    empty: bool = True
    """Whether an unreadable submission has no score. Otherwise, its score is 0."""

    def of(self, points: Mapping[str, Decimal]) -> dict[str, Decimal]:
        """Return the points of each check of a lab."""
        return {check: self.points.get(check, number) for check, number in points.items()}


class Settings(Toml):
    """A TOML file of the teacher. Fractions are decimals. Raises UsageError if it cannot be read."""

    def __init__(self, path: Path) -> None:
        try:
            super().__init__(str(path), path.read_text("utf-8-sig"), Decimal)
        except (OSError, ValueError) as error:
            raise UsageError(f"{path}: {error}") from error

    def wrong(self, rule: str, key: str, table: str, example: str) -> UsageError:
        """Return the error for a key: file, line, rule, example."""
        return UsageError(f"{self.name}, line {self.line(key, table) or 1}: {rule}; {example}")


def read_rubric(path: Path | None, checks: Iterable[str]) -> Rubric:
    """Read rubric.toml. Raises UsageError, with line and example, if it names a check that no lab has."""
    if path is None:
        return Rubric({})
    file = Settings(path)
    if unknown := set(file.values) - {"points", "policy"}:
        raise file.wrong(f"{min(unknown)!r} is neither [points] nor [policy]", min(unknown), "", _EXAMPLE)
    points, known = {}, set(checks)
    for check, number in file.values.get("points", {}).items():
        if check not in known:
            rule = f"there is no check {check!r}; the checks are {', '.join(sorted(known))}"
            raise file.wrong(rule, check, "points", _EXAMPLE)
        if type(number) not in (int, Decimal) or not 0 <= number < 10_000:
            raise file.wrong(f"{number!r} is not a number of points, at least 0", check, "points", _EXAMPLE)
        points[check] = Decimal(number)
    policy = {"hidden": RULE, "unreadable": "empty"} | file.values.get("policy", {})
    values = {"hidden": (NOTHING, RULE, TRACE), "unreadable": ("empty", 0)}
    for name, example in {"hidden": '"nothing", "rule" or "trace"', "unreadable": '"empty" or 0'}.items():
        if policy[name] not in values[name]:
            raise file.wrong(f"{name} is {policy[name]!r}", name, "policy", f"write {name} = {example}")
    return Rubric(points, policy["hidden"], policy["unreadable"] == "empty")


def earned(found: Found, points: Mapping[str, Decimal], rubric: Rubric) -> Decimal | None:
    """Return the points of a result; None if it has no grade."""
    if found["status"] == UNREADABLE and not rubric.empty:
        return Decimal(0)
    if found["status"] != GRADED:
        return None
    return sum((share(check) * points.get(check["check"], Decimal(0)) for check in found["checks"]), Decimal(0))


def share(check: Mapping[str, Any]) -> Decimal:
    """Return the share of its points that a check earns: all or nothing, unless it was measured.

    >>> share({"outcome": "pass"}), share({"outcome": "measured", "share": "0.98"})
    (Decimal('1'), Decimal('0.98'))
    """
    return Decimal(check.get("share", int(check["outcome"] in (Outcome.PASS, Outcome.EXPOSED))))


def cents(value: Decimal) -> Decimal:
    """Return a number with two decimals, half up."""
    return value.quantize(_CENT, ROUND_HALF_UP)


def number(value: Decimal | None) -> str:
    """Return a number as text, with at most two decimals; "" for None.

    >>> number(Decimal("87.50")), number(Decimal(100))
    ('87.5', '100')
    """
    return "" if value is None else f"{cents(value):f}".rstrip("0").rstrip(".")


@dataclass(frozen=True)
class ByHand:
    """A line of adjust.csv."""

    points: Decimal
    reason: str
    line: int = 0
    over: bool = False
    """Whether it may take the total above the lab's maximum."""


@dataclass(frozen=True)
class Adjust:
    """The points by hand, by id and lab."""

    rows: Mapping[tuple[str, int], Sequence[ByHand]] = field(default_factory=dict)
    name: str = ""
    """The name of the file."""
    wrong: Sequence[str] = ()
    """What is wrong with lines that are left out."""
    repeated: Sequence[str] = ()


def read_adjust(path: Path | None) -> Adjust:
    """Read adjust.csv (id, lab, points, reason, and perhaps over). Raises UsageError if a column is missing.

    A line with a wrong cell is left out, and so is one that repeats another.
    """
    if path is None:
        return Adjust()
    found: dict[tuple[str, int], list[ByHand]] = {}
    wrong, repeated = [], []
    example = "for example:\nid,lab,points,reason\ns0001,1,-5,oral examination"
    for line, row in read_table(path, ("id", "lab", "points", "reason"), example):
        cells = {"over": "", **row}
        bad = [
            f"column {name!r}: {cells[name]!r} is not {what}"
            for name, (form, what) in _CELLS.items()
            if not re.fullmatch(form, cells[name], re.I | re.A)
        ]
        if bad:
            wrong.append(f"{path.name}, line {line}, {'; '.join(bad)}; the line is left out")
            continue
        points = Decimal(cells["points"].replace(",", "."))
        one = ByHand(points, cells["reason"], line, cells["over"].lower() == "yes")
        mine = found.setdefault((cells["id"], int(cells["lab"])), [])
        first = next((other.line for other in mine if replace(other, line=line) == one), None)
        if first is None:
            mine.append(one)
        else:
            repeated.append(f"{path.name}, line {line}: the same as line {first}, so it counts once")
    return Adjust(found, path.name, wrong, repeated)


def applied(rows: Sequence[ByHand], base: Decimal, of: Decimal) -> list[ByHand]:
    """Return the lines that can be added to a score: not those that take the total above the maximum.

    Points that are taken away, and those with ``over``, are added first.

    >>> some = [ByHand(Decimal(points), "") for points in (500, 15, -10)]
    >>> [str(one.points) for one in applied(some, Decimal(90), Decimal(100))]
    ['15', '-10']
    """
    free = [one for one in rows if one.over or one.points <= 0]
    total = base + sum((one.points for one in free), Decimal(0))
    for one in rows:
        if one not in free and total + one.points <= of:
            free.append(one)
            total += one.points
    return [one for one in rows if one in free]
