"""Tell the cancellation of a task from a CancelledError that something else raised."""

from __future__ import annotations

import asyncio


def is_own(error: BaseException) -> bool:
    """Whether ``error`` cancels the current task.

    False for a CancelledError that a future raised, or that a user's coroutine raised itself: such an error
    is reported to the caller, and the task goes on.
    """
    if isinstance(error, GeneratorExit):
        return True
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
