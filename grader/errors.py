"""What ends a run before its verdict.

    GraderError
    +-- UsageError        the command line asks for something that cannot be       exit 64
    +-- SubmissionError   the submission cannot be run as it is: a fail that says so  exit 1
    +-- VoidError         this machine cannot judge now: never a score                exit 2
    +-- RecordError       a record folder that is not one, or is of another version   exit 64

Each message names the culprit, the rule, and the way out.
"""

from __future__ import annotations


class GraderError(Exception):
    """Anything that ends a run early."""


class UsageError(GraderError):
    """The command line asks for something that cannot be."""


class SubmissionError(GraderError):
    """The submission cannot be run as it is; the run is a fail that says so."""


class VoidError(GraderError):
    """This machine cannot judge; no score comes of it."""


class RecordError(GraderError):
    """A folder that holds no record, or one that this version cannot read."""
