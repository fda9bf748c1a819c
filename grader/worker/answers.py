"""Answers: a JSON value, or the reason why there is none."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

VALUE, ERROR, CRASH, TIMEOUT, BAD = "value", "error", "crash", "timeout", "bad"
"""Kinds of answers: a value, an exception, a process that ended, no answer in time, and an invalid answer."""
_DEEPEST = 50
"""The deepest nesting of lists and objects."""


@dataclass(frozen=True)
class Answer:
    """The answer to one call: a ``value``, or ``why`` there is none."""

    kind: str
    value: Any = None
    why: str = ""

    def same(self, expected: Any) -> bool:
        """Whether the answer is a value equal to ``expected``, of the same type."""
        return self.kind == VALUE and same(self.value, expected)


def same(got: Any, expected: Any) -> bool:
    """Whether two JSON values are equal, with equal types: 1 differs from True and from 1.0."""
    if type(got) is not type(expected):
        return False
    if type(expected) is list:
        return len(got) == len(expected) and all(map(same, got, expected))
    if type(expected) is dict:
        return got.keys() == expected.keys() and all(same(got[key], value) for key, value in expected.items())
    return bool(got == expected)


def _no(word: str) -> Any:
    raise ValueError(f"{word} is not a number")


def _deep(value: Any) -> int:
    deepest, level = 0, [value]
    while level and deepest <= _DEEPEST:
        level = [
            inner
            for outer in level
            if isinstance(outer, list | dict)
            for inner in (outer if isinstance(outer, list) else outer.values())
        ]
        deepest += 1
    return deepest


def read(raw: bytes, number: str) -> Answer:
    """Parse the answer to the question of this number. Anything else is BAD."""
    try:
        said = json.loads(raw.decode(), parse_constant=_no)
        if _deep(said) > _DEEPEST:
            raise ValueError(f"nested more than {_DEEPEST} levels deep")
        json.dumps(said, allow_nan=False)  # refuses 1e999, which is parsed as infinity
    except (ValueError, RecursionError) as error:
        return Answer(BAD, why=f"invalid JSON: {error or type(error).__name__}"[:200])
    if type(said) is not dict or set(said) - {"number", "value", "error"} or said.get("number") != number:
        return Answer(BAD, why="not an answer to this question")
    if "error" in said:
        return Answer(ERROR, why=str(said["error"])[:1000])
    return Answer(VALUE, said.get("value"))


def close(got: Any, expected: float, within: float) -> bool:
    """Whether ``got`` is a number (not a bool) within a distance of ``expected``."""
    return type(got) in (int, float) and math.isfinite(got) and abs(got - expected) <= within
