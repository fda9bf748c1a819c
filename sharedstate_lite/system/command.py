"""Runs a command of the kit and sets its exit status."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn

from ..errors import Error
from .notes import show_notes


def command(name: str, main: Callable[[], int]) -> NoReturn:
    """Run ``main`` and exit with the status that it returns.

    If ``main`` raises an Error, print it as one line on standard error, after ``name``, and exit with status 1. If
    the user presses Ctrl-C, exit with status 130. The notes of engines are printed.
    """
    show_notes()
    try:
        sys.exit(main())
    except Error as error:
        sys.exit(f"{name}: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
