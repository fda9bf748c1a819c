"""The answer to a question: a JSON value, or the reason why there is none."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from ..outcomes import Outcome

VALUE, ASK = "value", "ask"
"""The kinds of answers besides those of `Outcome`: a value; and a call of a function of the grader, which is no answer
yet. Its value is [name, arguments]."""
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")
"""The address of an object, which differs from run to run."""
_DEEPEST = 50
"""The maximum nesting depth of lists and objects."""


@dataclass(frozen=True)
class Answer:
    """The answer to one call: a ``value``, or ``why`` there is none."""

    kind: str
    value: Any = None
    why: str = ""
    types: tuple[str, ...] = ()
    """The names of an exception's class and of its bases, such as ("KeyError", "LookupError", "Exception", ...)."""
    waited: bool = False
    """Whether a timeout could be due to a busy machine."""
    spent: bool = False
    """Whether the time for all checks together is used up."""

    def same(self, expected: Any) -> bool:
        """Return whether the answer is a value that is equal to ``expected`` and has the same type."""
        return self.kind == VALUE and same(self.value, expected)


def same(got: Any, expected: Any) -> bool:
    """Return whether two JSON values are equal and have equal types. For example, 1 differs from True and from 1.0."""
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
    """Parse the answer to the question with this number. If ``raw`` is anything else, the answer is of kind BAD."""
    try:
        said = json.loads(raw.decode(), parse_constant=_no)
        if _deep(said) > _DEEPEST:
            raise ValueError(f"nested more than {_DEEPEST} levels deep")
        json.dumps(said, allow_nan=False)  # rejects 1e999, which is parsed as infinity
    except (ValueError, RecursionError) as error:
        return Answer(Outcome.BAD, why=f"invalid JSON: {error or type(error).__name__}"[:200])
    if type(said) is not dict or said.get("number") != number:
        return Answer(Outcome.BAD, why="not an answer to this question")
    if set(said) == {"number", "ask", "args"} and type(said["ask"]) is str and type(said["args"]) is list:
        return Answer(ASK, [said["ask"], said["args"]])
    if set(said) == {"number", "value"}:
        return Answer(VALUE, said["value"])
    if set(said) == {"number", "error", "types"} and type(said["types"]) is list:
        why = _ADDRESS.sub("0x...", str(said["error"])[:1000])
        return Answer(Outcome.ERROR, why=why, types=tuple(map(str, said["types"])))
    return Answer(Outcome.BAD, why="not an answer to this question")
