"""Whose end a cancellation is: the task's own, or that of something which it waited for."""

from __future__ import annotations

import asyncio


def is_own(error: BaseException) -> bool:
    """Whether this task is to end, and not merely something that it waited for, or the user's code, says so."""
    if isinstance(error, GeneratorExit):
        return True
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
