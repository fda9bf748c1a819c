"""Labs: checks of a student's code, and how a lab is built from its master.

`checks` defines checks and cases, `small` yields short histories, `draw` numbers that depend on a secret, and `judge`
runs checks on a student's code. A function of the grader that the student's code calls raises RefusedError, and a
question that has no value raises NoValueError.
"""

from ..worker import NoValueError, RefusedError
from .checks import EXACT, Case, Check, Shape, UnlikeError, check
from .draw import drawn
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
    "NoValueError",
    "RefusedError",
    "Result",
    "Shape",
    "UnlikeError",
    "check",
    "drawn",
    "each",
    "histories",
    "judge",
    "text",
]
