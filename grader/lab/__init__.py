"""Labs: checks of a student's code, and how a lab is built from its master.

`checks` defines checks and cases, `small` yields short histories, and `judge` runs checks on a student's code.
"""

from .checks import EXACT, Case, Check, Shape, UnlikeError, check
from .judge import Result, judge
from .small import BAG, EMITTED, Change, History, each, histories, text

__all__ = [
    "BAG",
    "EMITTED",
    "EXACT",
    "Case",
    "Change",
    "Check",
    "History",
    "Result",
    "Shape",
    "UnlikeError",
    "check",
    "each",
    "histories",
    "judge",
    "text",
]
