"""Checks code that the reader writes, and shows the first step that goes wrong.

A check is a generator of steps. Each step has a label, a call of the reader's code, the expected result and a hint.

>>> from sharedstate_lite import show
>>> @show.written
... def check(largest):
...     yield "of 1 and 2", lambda: largest([1, 2]), 2, "compare all values"
...     yield "of nothing", lambda: largest([]), None, "an empty list has no maximum"
>>> check(lambda values: values[-1] if values else 0)
✗ of nothing: 0, should be None. Hint: an empty list has no maximum.
>>> check(lambda values: max(values, default=None))
✓ 2 steps, all right.
"""

from __future__ import annotations

import dis
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial, wraps
from html import escape
from types import CodeType, FunctionType
from typing import Any

from ..errors import Error, shorten
from .checks import checking
from .palette import colour, style
from .waiting import NoAnswer, alarm, patience

Step = tuple[str, Callable[[], Any], Any, str]
NOT_WRITTEN = "not written yet"
SAY_IT_ALL = (NameError, AttributeError, TypeError, ImportError, Error)
"""Errors of the language, which no hint about the result explains, and those of the kit, which say what to do."""
OFFER = 3
"""After how many wrong attempts a solution is offered."""
NO_RETURN = "A function without `return` returns None."
SLIPS = {
    r"^None$|'NoneType' object": NO_RETURN,
    r"<generator object|'generator' object": "A function with `yield` returns a generator: write `return`.",
    r"<coroutine object|'coroutine' object": "A function with `async` returns a coroutine: write `def`, or await it.",
}
"""A sentence for a text of what the first step gave instead. The first one is left out if the code has a ``return``."""


@dataclass(frozen=True)
class Written:
    """The result of a check. ``right`` is None if the code is not written yet."""

    right: bool | None
    text: str

    def __repr__(self) -> str:
        return {True: "✓ ", False: "✗ ", None: ""}[self.right] + self.text

    def _repr_html_(self) -> str:
        tone = colour({True: "upquery", False: "deleted", None: "muted"}[self.right])
        return (
            f"<style>{style()}</style><div class='ssl' style='background:none;color:{tone}'>{escape(repr(self))}</div>"
        )


WRONG: Counter[CodeType] = Counter()
"""How often the code for a check was wrong since it was right; a check that is defined again is the same."""


def written(steps: Callable[[Any], Iterable[Step]], in_order: bool = False) -> Callable[[Any], Written]:
    """Turn a generator of steps into a check of the reader's code, which never raises.

    Code that raises NotImplementedError is not written yet. A step has a few seconds (``waiting``). From the third
    wrong attempt on, the text says where a solution is. If the cell that ran before was a SyntaxError, the text says
    that the code is that of an earlier run. ``in_order``: each step needs those before it.
    """

    @wraps(steps)
    def check(mine: Any) -> Written:
        said = _checked(steps(mine), in_order, mine)
        if not checking() and said.right is not None:
            WRONG[code] = 0 if said.right else WRONG[code] + 1
            offer = "A solution is folded below." if WRONG[code] >= OFFER else ""
            said = Written(said.right, " ".join(filter(None, [said.text, offer, _not_run()])))
        return said

    code = steps.__code__
    return check


written_in_order = partial(written, in_order=True)
"""`written` for steps that each need those before them."""


def _not_run() -> str:
    """Say so if IPython could not run the last cell at all; "" otherwise."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    before = getattr(shell, "last_execution_result", None)
    if before is None or not isinstance(before.error_before_exec, SyntaxError):
        return ""
    return "The cell before this one did not run (SyntaxError), so this judges the code of an earlier run."


def _returns(mine: Any) -> bool:
    """Return whether a function, or a method of a class, has a ``return`` with a value."""
    made = [mine, *(vars(mine).values() if isinstance(mine, type) else ())]
    for code in (each.__code__ for each in made if isinstance(each, FunctionType)):
        steps = list(dis.get_instructions(code))
        for before, step in zip(steps, steps[1:], strict=False):
            given = step if step.opname == "RETURN_CONST" else before
            none = "CONST" in given.opname and given.argval is None
            if step.opname.startswith("RETURN_") and step.opname != "RETURN_GENERATOR" and not none:
                return True
    return False


def _checked(steps: Iterable[Step], in_order: bool, mine: Any) -> Written:
    before: list[str] = []
    todo, label, hint = iter(steps), "", ""
    while True:
        try:
            with alarm():
                label = hint = wanted = ""
                step = next(todo, None)
                if step is None:
                    return Written(True, f"{len(before)} steps, all right." if len(before) > 1 else "Right.")
                label, call, right, hint = step
                got = call()
                wanted = shorten(right)
                problem = "" if _same(got, right) else shorten(got)
        except NotImplementedError:
            return Written(None, NOT_WRITTEN)
        except (NoAnswer, TimeoutError):
            problem = f"no answer within {patience():g} seconds; does it wait for something that never comes?"
        except Exception as error:
            problem = f"{type(error).__name__}: {error}".removesuffix(": ")
            hint = "" if isinstance(error, SAY_IT_ALL) else hint
        if problem:
            # Without a label, the reader's code failed outside of a call, for example in a constructor.
            after = f" (after {', '.join(before)})" if in_order and before else ""
            slips = [slip for kind, slip in SLIPS.items() if not before and re.search(kind, problem)]
            slips = [slip for slip in slips if slip != NO_RETURN or not _returns(mine)]
            problem += wanted and f", should be {wanted}"
            text = [f"{label}{after}: {problem}" if label else problem, *slips, *([f"Hint: {hint}"] if hint else [])]
            return Written(False, " ".join(each if each[-1] in ".?!" else f"{each}." for each in text))
        before.append(label)


def _same(got: Any, right: Any) -> bool:
    try:
        return bool(got == right)
    except (TypeError, ValueError):  # pandas' missing value, or an array: neither equal nor different
        return False


__all__ = ["NOT_WRITTEN", "Written", "written", "written_in_order"]
