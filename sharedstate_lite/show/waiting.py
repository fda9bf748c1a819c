"""Waits at most a few seconds for code that a reader has written.

A coroutine gets a loop of its own, and asyncio's limit. All other code is stopped by an alarm, which Unix has, and
only the main thread hears: on Windows, and in another thread, code that never ends is waited for.

>>> from sharedstate_lite import show
>>> async def answer():
...     return 7
>>> show.awaited(answer())
7
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from .checks import attended

T = TypeVar("T")
ATTENDED, UNATTENDED = 5.0, 60.0
"""The most seconds for an answer. A busy machine that runs a notebook without a reader has more."""


class NoAnswer(BaseException):
    """The time is up. The reader's ``except Exception`` does not stop it."""


def patience() -> float:
    """Return the most seconds that are waited for an answer."""
    return ATTENDED if attended() else UNATTENDED


@contextmanager
def alarm() -> Iterator[None]:
    """Raise NoAnswer in the code of a ``with`` that takes too long."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(*_: Any) -> None:
        raise NoAnswer

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, patience())
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def awaited(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in another thread, as the loop of a notebook is running, and return its result.

    Raises TimeoutError if it takes too long, and TypeError if it is no coroutine. One that blocks its loop cannot be
    stopped; its thread is left.
    """
    if not asyncio.iscoroutine(coroutine):
        raise TypeError(f"{type(coroutine).__name__} is not a coroutine; write `async def`")
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(asyncio.run(asyncio.wait_for(coroutine, 0.9 * patience())))  # the alarm is later
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done.result()


__all__ = ["NoAnswer", "alarm", "awaited", "patience"]
