"""The end of a command line: a status, one line for what the kit refuses, 130 for Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn

from ..errors import Error


def command(name: str, main: Callable[[], int]) -> NoReturn:
    """Leave Python with the status that ``main`` returns; an Error is one line on standard error, and status 1."""
    try:
        sys.exit(main())
    except Error as error:
        sys.exit(f"{name}: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
