"""Distinguishes the cancellation of the current task from a CancelledError with another cause."""

from __future__ import annotations

import asyncio


def is_own(error: BaseException) -> bool:
    """Return True if ``error`` was raised because the current task is being cancelled.

    Return False for a CancelledError that comes from a future, or that a user's coroutine raised itself. Such an error
    is reported to the caller, and the task continues.
    """
    if isinstance(error, GeneratorExit):
        return True
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
