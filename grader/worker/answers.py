"""What an answer is: bytes that were JSON, as plain values of exact types, or why there is none."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

VALUE, ERROR, CRASH, TIMEOUT, BAD = "value", "error", "crash", "timeout", "bad"
"""What became of a call: a value, an exception of the student's, an end of the process, silence, no answer of ours."""
_DEEPEST = 50
"""Lists in lists, at most."""


@dataclass(frozen=True)
class Answer:
    """``value`` where there is one, else ``why``."""

    kind: str
    value: Any = None
    why: str = ""

    def same(self, expected: Any) -> bool:
        """Whether it is this value, of this type: no other kind of answer ever is."""
        return self.kind == VALUE and same(self.value, expected)


def same(got: Any, expected: Any) -> bool:
    """Equal, type by type: 1 is not True and not 1.0; nothing is NaN. Lists in order, objects by key."""
    if type(got) is not type(expected):
        return False
    if type(expected) is list:
        return len(got) == len(expected) and all(map(same, got, expected))
    if type(expected) is dict:
        return got.keys() == expected.keys() and all(same(got[key], value) for key, value in expected.items())
    return bool(got == expected)


def _no(word: str) -> Any:
    raise ValueError(f"{word} is no number")


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
    """An answer to the question of this number; anything else is BAD."""
    try:
        said = json.loads(raw.decode(), parse_constant=_no)
        if _deep(said) > _DEEPEST:
            raise ValueError(f"more than {_DEEPEST} lists or objects in one another")
        json.dumps(said, allow_nan=False)  # 1e999 is read as an infinite number, which is refused here
    except (ValueError, RecursionError) as error:
        return Answer(BAD, why=f"no JSON: {error or type(error).__name__}"[:200])
    if type(said) is not dict or set(said) - {"number", "value", "error"} or said.get("number") != number:
        return Answer(BAD, why="an answer to another question, or to none")
    if "error" in said:
        return Answer(ERROR, why=str(said["error"])[:1000])
    return Answer(VALUE, said.get("value"))


def close(got: Any, expected: float, within: float) -> bool:
    """Whether a number is near another; a bool is none."""
    return type(got) in (int, float) and math.isfinite(got) and abs(got - expected) <= within
