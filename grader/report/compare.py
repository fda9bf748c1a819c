"""Compare the report.json of a record with the one that this grader would write."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import RecordError
from ..record import load
from ..verdict import judge
from .as_json import content

REPORT = "report.json"
_SHOWN = 5
"""The maximum number of violations to name."""


def compare(folder: Path) -> list[str] | None:
    """Return what this grader would change in the report of a record, one line each; None if it has no report.

    Texts, such as the reason for a verdict, are not compared. Nothing is written. Raises RecordError if the record or
    its report cannot be read.
    """
    record = load(folder)
    try:
        before = json.loads((folder / REPORT).read_text("utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise RecordError(f"{folder / REPORT} is not JSON ({error}); run replay without --compare first") from error
    return differences(before, content(record, judge(record)))


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return how two reports of one record differ in verdicts, points and violations.

    >>> same = {"verdict": "pass", "score": 85, "phases": {"load": {"verdict": "pass"}}, "violations": []}
    >>> differences({**same, "verdict": "void", "score": None}, same)
    ['verdict: void -> pass', 'score: none -> 85']
    """
    lines = [_changed(name, before.get(name), now.get(name)) for name in ("verdict", "score", "at_most")]
    for name, phase in now["phases"].items():
        lines.append(_changed(f"phase {name}", before["phases"].get(name, {}).get("verdict"), phase["verdict"]))
    old, new = (Counter(map(_name, report["violations"])) for report in (before, now))
    for word, some in (("no longer", old - new), ("new", new - old)):
        names = sorted(some.elements())
        more = f", and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
        lines.append(f"{word}: {', '.join(names[:_SHOWN])}{more}" if names else "")
    return [line for line in lines if line]


def _changed(name: str, before: Any, after: Any) -> str:
    words = ("none" if value is None else f"{value}" for value in (before, after))
    return "" if before == after else f"{name}: {' -> '.join(words)}"


def _name(violation: Mapping[str, Any]) -> str:
    return f"{violation['rule']} of {violation['label'] or violation['phase']}"
