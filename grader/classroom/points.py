"""Points of a result, by the bundle's points and the teacher's rubric.toml; a pure function of both.

[points]
"max.second" = 15
[policy]
hidden = "rule"            # what feedback shows of a failed hidden check: nothing, its rule, or rule and trace
unreadable = "empty"       # the score of an unreadable submission: "empty" or 0
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..lab.judge import PASS
from .results import GRADED, UNREADABLE, Found
from .roster import read_table

NOTHING, RULE, TRACE = "nothing", "rule", "trace"
_EXAMPLE = 'for example:\n[points]\n"max.second" = 15'
_CENT = Decimal("0.01")


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


def read_toml(path: Path) -> tuple[dict[str, Any], str]:
    """Return the content and the text of a TOML file. Fractions are decimals. Raises UsageError."""
    try:
        text = path.read_text("utf-8-sig")
        return tomllib.loads(text, parse_float=Decimal), text
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from error


def line_of(text: str, key: str) -> int:
    """Return the first line in which a key stands at the beginning."""
    pattern = re.compile(rf"\s*\[?[\"']?{re.escape(key)}[\"']?\s*[=.\]]")
    return next((number for number, line in enumerate(text.split("\n"), 1) if pattern.match(line)), 1)


def read_rubric(path: Path | None, checks: Iterable[str]) -> Rubric:
    """Read rubric.toml. Raises UsageError, with line and example, if it names a check that no lab has."""
    if path is None:
        return Rubric({})
    found, text = read_toml(path)

    def no(key: str, said: str, example: str = _EXAMPLE) -> UsageError:
        return UsageError(f"{path}, line {line_of(text, key)}: {said}; {example}")

    if unknown := set(found) - {"points", "policy"}:
        raise no(min(unknown), f"{min(unknown)!r} is neither [points] nor [policy]")
    points, known = {}, set(checks)
    for check, number in found.get("points", {}).items():
        if check not in known:
            raise no(check, f"there is no check {check!r}; the checks are {', '.join(sorted(known))}")
        if type(number) not in (int, Decimal) or not 0 <= number < 10_000:
            raise no(check, f"{number!r} is not a number of points, at least 0")
        points[check] = Decimal(number)
    policy = {"hidden": RULE, "unreadable": "empty"} | found.get("policy", {})
    if policy["hidden"] not in (NOTHING, RULE, TRACE):
        raise no("hidden", f"hidden is {policy['hidden']!r}", 'write hidden = "nothing", "rule" or "trace"')
    if policy["unreadable"] not in ("empty", 0):
        raise no("unreadable", f"unreadable is {policy['unreadable']!r}", 'write unreadable = "empty" or 0')
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
    return Decimal(check.get("share", int(check["outcome"] == PASS)))


def cents(value: Decimal) -> Decimal:
    """Return a number with two decimals, half up."""
    return value.quantize(_CENT, ROUND_HALF_UP)


def number(value: Decimal | None) -> str:
    """Return a number as text, with at most two decimals; "" for None.

    >>> number(Decimal("87.50")), number(Decimal(100))
    ('87.5', '100')
    """
    return "" if value is None else f"{cents(value):f}".rstrip("0").rstrip(".")


def read_adjust(path: Path | None) -> dict[tuple[str, int], list[tuple[Decimal, str]]]:
    """Return the points that adjust.csv (id, lab, points, reason) adds to scores, by id and lab."""
    found: dict[tuple[str, int], list[tuple[Decimal, str]]] = {}
    example = "for example:\nid,lab,points,reason\ns0001,1,-5,oral examination"
    if path is None:
        return found
    for line, row in read_table(path, ("id", "lab", "points", "reason"), example):
        if not re.fullmatch(r"[1-9]\d{0,3}", row["lab"]) or not re.fullmatch(r"[+-]?\d{1,4}(\.\d+)?", row["points"]):
            raise UsageError(f"{path}, line {line}: lab {row['lab']!r}, points {row['points']!r}; {example}")
        found.setdefault((row["id"], int(row["lab"])), []).append((Decimal(row["points"]), row["reason"]))
    return found
