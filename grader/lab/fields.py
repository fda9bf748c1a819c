"""The fields of lab.toml and mutants.toml: what is valid, and errors with file, line, rule and example."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..toml import Toml
from .regions import MasterError

HAND_IN = "solution.py"
TOTAL = 100
"""The sum of all points of a lab."""
Rule = tuple[Callable[[Any], bool], str, str]
"""Whether a value is valid, the rule in words, and an example."""


def _number(least: int, most: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value <= most


def _words(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and value.isprintable()


def _tasks(value: Any) -> bool:
    numbered = isinstance(value, dict) and list(value) == [str(number) for number in range(1, len(value) + 1)]
    return numbered and bool(value) and all(map(_words, value.values()))


def _points(value: Any) -> bool:
    numbers = isinstance(value, dict) and all(type(each) in (int, float) and each >= 0 for each in value.values())
    return numbers and math.isclose(sum(value.values()), TOTAL)


def _cases(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_number(1, 100_000), value.values()))


def _replace(value: Any) -> bool:
    pairs = isinstance(value, list) and bool(value) and all(isinstance(pair, list) for pair in value)
    return pairs and all(len(pair) == 2 and all(isinstance(text, str) for text in pair) and pair[0] for pair in value)


LAB: dict[str, Rule] = {
    "number": (_number(1, 99), "must be a whole number from 1 to 99", "number = 1"),
    "title": (_words, "must be one line of text", 'title = "A retractable MAX and a symmetric join"'),
    "minutes": (_number(1, 600), "must be a whole number from 1 to 600", "minutes = 150"),
    "hand_in": (lambda value: value == [HAND_IN], "must be the one file that is handed in", f'hand_in = ["{HAND_IN}"]'),
    "memory_mib": (_number(64, 4096), "must be a whole number from 64 to 4096", "memory_mib = 512"),
    "tasks": (_tasks, "must name the tasks 1, 2, 3, ... in this order", '[tasks]\n  1 = "net"\n  2 = "The join"'),
    "points": (
        _points,
        f"must be numbers, none below 0, that add up to {TOTAL}",
        '[points]\n  "net" = 4\n  "join.bag" = 8',
    ),
    "cases": (_cases, "must be the number of cases of each check", '[cases]\n  "net" = 39'),
}
MUTANT: dict[str, Rule] = {
    "replace": (_replace, "must be pairs of an old and a new text", 'replace = [["diff * count", "diff"]]'),
    "check": (_words, "must be the check that fails first", 'check = "join.bag"'),
    "trace": (_words, "must be the trace that the student sees", 'trace = "+info, +info | +visit"'),
    "says": (_words, "must say what is wrong, in one line", 'says = "The join stores whether a row is there."'),
    "rule": (_number(1, 99), "must be the number of the rule that its check checks", "rule = 8"),
}


def read_text(path: Path) -> str:
    """Return the text of a file of a master. Raises MasterError if it is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise MasterError(f"{path.name}: byte {error.start} is not UTF-8; save the file as UTF-8") from None


class Fields(Toml):
    """A TOML file of a master. Raises MasterError if it is not valid TOML."""

    def __init__(self, path: Path) -> None:
        try:
            super().__init__(path.name, read_text(path))
        except tomllib.TOMLDecodeError as error:
            raise MasterError(f"{path.name}: {error}; the file must be valid TOML") from None

    def wrong(self, rule: str, table: str, key: str = "", example: str = "") -> str:
        """Return a problem: file, line, rule, example."""
        where = " ".join(filter(None, [f"[{table}]" if table else "", key]))
        shown = f"\n  example: {example}" if example else ""
        return f"{self.name}, line {self.line(key, table) or 1}: {where}: {rule}{shown}"

    def problems(self, values: dict[str, Any], rules: dict[str, Rule], table: str, may: set[str]) -> list[str]:
        """Return what is wrong with the keys of a table. Keys in ``may`` can be missing."""
        found = [self.wrong("is missing", table, key, rules[key][2]) for key in rules.keys() - may - values.keys()]
        for key, value in values.items():
            at = (key, "") if isinstance(value, dict) else (table, key)
            if key not in rules:
                found.append(self.wrong(f"is not known; known are {', '.join(rules)}", *at))
            elif not rules[key][0](value):
                found.append(self.wrong(rules[key][1], *at, rules[key][2]))
        return sorted(found)

    def checked(self, rules: dict[str, Rule], may: set[str]) -> dict[str, Any]:
        """Return the whole file. Raises MasterError with all that is wrong with its keys."""
        if problems := self.problems(self.values, rules, "", may):
            raise MasterError(*problems)
        return self.values
