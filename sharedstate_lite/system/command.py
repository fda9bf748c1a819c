"""How a command of the kit exits."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn

from ..errors import Error


def command(name: str, main: Callable[[], int]) -> NoReturn:
    """Run ``main`` and exit with the status that it returns.

    An Error is printed on standard error in one line, with status 1. Ctrl-C exits with status 130.
    """
    try:
        sys.exit(main())
    except Error as error:
        sys.exit(f"{name}: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
