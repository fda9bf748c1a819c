"""Errors that end a run before its verdict.

    GraderError
    +-- UsageError        the command line is wrong                                   exit 64
    +-- SubmissionError   the submission cannot run: a fail with the reason           exit 1
    +-- VoidError         this machine cannot judge now: never a score                exit 2
    +-- RecordError       the folder holds no record, or one of another version       exit 64

Each message says what is wrong, the rule, and what to do.
"""

from __future__ import annotations


class GraderError(Exception):
    """Base class of all errors that end a run early."""


class UsageError(GraderError):
    """The command line is wrong."""


class SubmissionError(GraderError):
    """The submission cannot run. The verdict is a fail with this reason."""


class VoidError(GraderError):
    """This machine cannot judge the submission. The verdict is void, without a score."""


class RecordError(GraderError):
    """A folder holds no record, or one that this version cannot read."""
