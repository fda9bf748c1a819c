"""The autograder: `python -m grader checkout` for the checkout assignment, and `check`, `lab` and `class` for the labs.

The live half (`submission`, `sandbox`, `processes`, `wire`, `shop`, `phases`) and the judging half (`audit`, `verdict`,
`report`) share only the record of a run. `session` performs one run, and `cli` is the command line. docs/grader.md
describes the architecture. The labs use `lab`, `worker`, `student` and `classroom` (docs/labs.md). The grader does not
import code from labs/, from sharedstate_lite or from a submission.
"""

import sys
from typing import Any

if sys.version_info < (3, 11):  # noqa: UP036, a student may have an older one
    raise ImportError(f"this is Python {sys.version.split()[0]}, and the grader needs 3.11 or later; try: python3.12")

__all__ = ["check"]


def __getattr__(name: str) -> Any:
    if name == "check":  # for notebooks: from grader import check
        from .student import check

        return check
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
