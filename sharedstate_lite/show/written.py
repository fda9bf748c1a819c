"""Checks code that the reader writes, and shows the first step that goes wrong.

A check is a generator of steps. Each step has a label, a call of the reader's code, the expected result and a hint.

>>> from sharedstate_lite import show
>>> @show.written
... def check(largest):
...     yield "of 1 and 2", lambda: largest([1, 2]), 2, "compare all values"
...     yield "of nothing", lambda: largest([]), None, "an empty list has no maximum"
>>> check(lambda values: values[-1] if values else 0)
✗ of 1 and 2, of nothing: 0, should be None. Hint: an empty list has no maximum.
>>> check(lambda values: max(values, default=None))
✓ 2 steps, all right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from html import escape
from typing import Any

from ..errors import shorten
from .palette import colour, style

Step = tuple[str, Callable[[], Any], Any, str]
NOT_WRITTEN = "not written yet"


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


def written(steps: Callable[[Any], Iterable[Step]]) -> Callable[[Any], Written]:
    """Turn a generator of steps into a check of the reader's code, which never raises.

    Code that raises NotImplementedError is not written yet.
    """

    @wraps(steps)
    def check(mine: Any) -> Written:
        labels: list[str] = []
        try:
            for label, call, right, hint in steps(mine):
                labels.append(label)
                problem = _problem(call, right)
                if problem:
                    return Written(False, f"{', '.join(labels)}: {problem}. Hint: {hint}.")
        except NotImplementedError:
            return Written(None, NOT_WRITTEN)
        except Exception as error:
            # The reader's code failed outside of a call, for example in a constructor.
            return Written(False, f"{type(error).__name__}: {error}")
        return Written(True, f"{len(labels)} steps, all right." if len(labels) > 1 else "Right.")

    return check


def _problem(call: Callable[[], Any], right: Any) -> str:
    """Return how the result of a call differs from the right one; "" if it does not. Raises NotImplementedError."""
    try:
        got = call()
        same = bool(got == right)
    except NotImplementedError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "" if same else f"{shorten(got)}, should be {shorten(right)}"


__all__ = ["NOT_WRITTEN", "Written", "written"]
