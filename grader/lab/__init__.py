"""Labs: checks of a student's code, and how a lab is built from its master.

`checks` defines checks and cases, `small` yields short histories and numbers that depend on a secret, `reading` reads a
history that a student has written, and `judge` runs checks on a student's code. A function of the grader that the
student's code calls raises RefusedError, and a question that has no value raises NoValueError.
"""

from ..worker import NoValueError, RefusedError, awaited
from .checks import EXACT, Case, Shape, UnlikeError, check
from .reading import NUMBER, WORD, Piece, Rows
from .small import BAG, EMITTED, drawn, drawn_epoch, each, histories, text, view_changes

__all__ = [
    "BAG",
    "EMITTED",
    "EXACT",
    "NUMBER",
    "WORD",
    "Case",
    "NoValueError",
    "Piece",
    "RefusedError",
    "Rows",
    "Shape",
    "UnlikeError",
    "awaited",
    "check",
    "drawn",
    "drawn_epoch",
    "each",
    "histories",
    "text",
    "view_changes",
]
