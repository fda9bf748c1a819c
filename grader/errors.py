"""Errors that end a run before its verdict.

    GraderError
    +-- UsageError        the command line is invalid                                 exit 64
    +-- SubmissionError   the submission cannot run; the verdict is fail              exit 1
    +-- VoidError         the machine cannot judge now; there is no score             exit 2
    +-- RecordError       the folder does not contain a readable record               exit 64

Each message says what is wrong, the rule, and what to do.
"""

from __future__ import annotations

from traceback import format_exception_only


class GraderError(Exception):
    """Base class of all errors that end a run early. Its text is ``reason; mend``.

    >>> error = SubmissionError("the archive is damaged", "pack it again")
    >>> str(error), error.mend
    ('the archive is damaged; pack it again', 'pack it again')
    """

    def __init__(self, reason: str, mend: str = "") -> None:
        """``reason``: what is wrong, and the rule; ``mend``: what to do, where a table shows it apart."""
        super().__init__(f"{reason}; {mend}" if mend else reason)
        self.reason, self.mend = reason, mend


class UsageError(GraderError):
    """The command line is invalid."""


class SubmissionError(GraderError):
    """The submission cannot run. The verdict is fail, and the message is the reason."""


class VoidError(GraderError):
    """This machine cannot judge the submission. The verdict is void, and there is no score."""


class RecordError(GraderError):
    """A folder does not contain a record, or contains one that this version cannot read."""


def text_of(error: BaseException) -> str:
    """Return the class and the message of an error, even if its message cannot be made.

    >>> text_of(KeyError("x"))
    "KeyError: 'x'"
    >>> text_of(KeyError(10**5000))  # Python refuses to write a number of more than 4,300 digits
    'KeyError: <exception str() failed>'
    """
    return "".join(format_exception_only(error)).strip()
