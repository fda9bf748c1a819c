"""Checks of what a notebook's text says. A check that fails stops the tests, and no reader who has changed a cell.

>>> from sharedstate_lite import show
>>> with show.checks():
...     assert 1 + 1 == 3
The text describes the cells as delivered; one of them was changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

UNATTENDED = "SHAREDSTATE_LITE_UNATTENDED"
"""The environment variable that is set if a notebook runs without a reader."""


def attended() -> bool:
    """Return whether a reader runs the notebook."""
    return not os.environ.get(UNATTENDED)


@contextmanager
def checks() -> Iterator[None]:
    """Run the asserts of a cell. With a reader, an exception becomes one printed line; unattended, it is raised."""
    _open.append(True)
    try:
        yield
    except Exception:
        if not attended():
            raise
        print("The text describes the cells as delivered; one of them was changed.")
    finally:
        _open.pop()


def checking() -> bool:
    """Return whether a check runs: what it calls is not the reader's attempt."""
    return bool(_open)


_open: list[bool] = []

__all__ = ["UNATTENDED", "attended", "checking", "checks"]
