"""Checks of a lab, as its author writes them in checks.py, and hidden ones in hidden.py.

A check is a generator. It yields cases, smallest first; the first case whose answer differs is shown to the student:

    @check("max.second", task=3, rule=8)
    def second(student):
        \"\"\"Deleting the greatest value gives the second greatest.\"\"\"
        for history in histories(VALUES, most=4):
            yield Case(text(history), recompute(history), lambda: student.play("Max", "step", history))

The docstring is the rule in the student's words. A case is evaluated before the generator continues. hidden.py imports
what it needs of the visible checks: ``from checks import VALUES``.
"""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import UsageError
from ..worker import Student

CHECKS, HIDDEN = "checks.py", "hidden.py"
CPU = 2.0
"""CPU seconds that all cases of a check may take together, unless the check says otherwise."""


class UnlikeError(Exception):
    """An answer does not have the shape that was asked for. The message says which shape that is."""


def python(value: Any) -> str:
    """Return a value as the student would write it: lists inside the outermost list are tuples.

    >>> python([[["Fruit", 2], 1]])
    "[(('Fruit', 2), 1)]"
    """
    return repr([_tuples(item) for item in value] if isinstance(value, list) else value)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


@dataclass(frozen=True)
class Shape:
    """The shape of an answer: how it is compared and how it is shown. Both functions take JSON values.

    ``like`` returns what is compared, a JSON value, for the right answer and for the student's. It raises UnlikeError
    if the answer does not have this shape.
    """

    like: Callable[[Any], Any]
    show: Callable[[Any], str] = python


EXACT = Shape(lambda value: value)
"""Answers are compared exactly."""


@dataclass(frozen=True)
class Case:
    """One case of a check: what happens (``trace``), the right answer, and a function that asks the student's code."""

    trace: str
    right: Any
    ask: Callable[[], Any]
    shape: Shape = EXACT


Cases = Callable[[Student], Iterator[Case]]


@dataclass(frozen=True)
class Check:
    """A check of a lab."""

    id: str
    task: int
    rule: str
    """What the student reads: the rule in one sentence."""
    number: int | None
    """The number of the kit's rule (docs/rules.md), if there is one."""
    needs: tuple[str, ...]
    """Checks whose failure explains a failure of this one. `check` then shows one line about it."""
    cpu: float
    cases: Cases
    hidden: bool = False
    """Whether it is in hidden.py, which students do not have."""


def check(
    id: str, task: int, rule: int | None = None, needs: Sequence[str] = (), cpu: float = CPU
) -> Callable[[Cases], Check]:
    """Make a generator of cases a check. Its docstring's first line is the rule that it checks."""

    def made(cases: Cases) -> Check:
        words = (cases.__doc__ or "").strip().partition("\n")[0]
        if not words:
            raise UsageError(f"check {id!r} has no docstring; its first line tells the student the rule")
        return Check(id, task, words, rule, tuple(needs), cpu, cases)

    return made


def load(path: Path) -> list[Check]:
    """Return the checks of checks.py, and of hidden.py beside it, by task. Hidden ones are the last of each task.

    Raises UsageError if there are none, or one id stands twice.
    """
    names = runpy.run_path(str(path))
    found = _checks(names)
    if not found:
        raise UsageError(f"{path} has no checks; a check is a generator with the decorator @check(id, task=...)")
    hidden = path.with_name(HIDDEN)
    if hidden.is_file():
        with _importable(names):
            found += [replace(one, hidden=True) for one in _checks(runpy.run_path(str(hidden)))]
    found.sort(key=lambda one: one.task)
    ids = [one.id for one in found]
    if twice := sorted({id for id in ids if ids.count(id) > 1}):
        raise UsageError(f"{path}: there are two checks with the id {twice[0]!r}; ids must differ")
    for at, one in enumerate(found):
        above = {before.id for before in found[:at] if one.hidden or not before.hidden}
        if missing := set(one.needs) - above:
            rule = "which is hidden, or no check above it"
            raise UsageError(f"{path}: {one.id!r} needs {min(missing)!r}, {rule}")
    return found


def _checks(names: dict[str, Any]) -> list[Check]:
    return [value for value in names.values() if isinstance(value, Check)]


@contextmanager
def _importable(names: dict[str, Any]) -> Iterator[None]:
    """Let ``import checks`` find these names in the block."""
    name = Path(CHECKS).stem
    module, before = ModuleType(name), sys.modules.get(name)
    module.__dict__.update(names)
    sys.modules[name] = module
    try:
        yield
    finally:
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before


def jsonable(value: Any) -> Any:
    """Return a value as the student's process would return it: with lists in place of tuples."""
    return json.loads(json.dumps(value, allow_nan=False))
