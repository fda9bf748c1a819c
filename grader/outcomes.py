"""What a phase or a run, and what a check of a lab, can come to. Each has the word that reports show for it.

    Verdict   of a phase or a run of `checkout`, written to report.json
    Outcome   of a check of a lab, written to a result

A member is its own text, so it is stored as it is:

>>> Verdict.FAIL == "fail", Verdict("not_tested").word, Outcome.WRONG.word
(True, 'not tested', 'wrong answer')
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class _Worded(StrEnum):
    """A text that is stored, and the word for it in reports."""

    word: str

    def __new__(cls, value: str, word: str) -> Self:
        """Make a member of its text and its word."""
        member = str.__new__(cls, value)
        member._value_, member.word = value, word
        return member


class Verdict(_Worded):
    """The verdict of a phase or of a run. A run is pass, fail or void."""

    PASS = "pass", "pass"
    FAIL = "fail", "FAIL"
    VOID = "void", "void"
    """The machine or the grader could not judge."""
    NOT_TESTED = "not_tested", "not tested"
    MEASURED = "measured", "measured"
    """A phase that only measures, such as speed without --require."""


class Outcome(_Worded):
    """The outcome of a check: of a lab's, or of a phase as the check of a checkout (fail, unreached, measured),
    or of a wrong solution (exposed, at large).
    """

    PASS = "pass", "passes"
    WRONG = "wrong", "wrong answer"
    ERROR = "error", "exception"
    CRASH = "crash", "the process exited"
    TIMEOUT = "timeout", "timeout"
    BAD = "bad", "invalid answer"
    DIFFER = "answers differ", "answers differ"
    """The failing case has two different answers."""
    NOT_RUN = "not run", "not run"
    """The check was not tried."""
    VOID = "void", "not judged"
    """The machine could not run it."""
    FAIL = "fail", "fails"
    UNREACHED = "unreached", "not reached"
    MEASURED = "measured", "measured"
    """It earns a share of its points."""
    EXPOSED = "exposed", "exposed"
    AT_LARGE = "at large", "at large"
    """Whether a student's histories expose a wrong solution."""
