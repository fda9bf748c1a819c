"""The checks of a lab on a student's machine: ``python -m grader check``, and `check` in a notebook.

    from grader import check
    check(3)                    # runs the visible checks of task 3 on solution.py beside the notebook

The student's copy of a lab contains the modules in `FILES`. They need Python 3.11 or later, and no package. `local`
runs the student's code in a plain process, `cpu` reads its CPU time, `folder` reads a lab's folder, and `command` is
the command line.
"""

from .command import check
from .files import FILES

__all__ = ["FILES", "check"]
