"""Turns SIGTERM and SIGHUP into exceptions like Ctrl-C, and defers signals during steps that must be completed."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Interrupted(KeyboardInterrupt):
    """The exception for SIGTERM or SIGHUP, a KeyboardInterrupt like Ctrl-C. ``number`` is the signal's number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextlib.contextmanager
def raised() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise Interrupted within the block.

    A signal that was ignored before, for example because of nohup, stays ignored.
    """
    before = _handlers()
    for number, handler in before.items():
        if number != signal.SIGINT and handler != signal.SIG_IGN:
            signal.signal(number, _raise)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def late() -> Iterator[None]:
    """Defer signals that arrive within the block. At the end of the block, the first of them is handled."""
    before = {number: handler for number, handler in _handlers().items() if callable(handler)}
    came: list[tuple[int, FrameType | None]] = []
    within = True

    def note(number: int, frame: FrameType | None) -> None:
        # At the end, the handlers are restored one by one. Signals that arrive meanwhile are passed on to them.
        if within:
            came.append((number, frame))
        else:
            before[number](number, frame)

    try:
        for number in before:
            signal.signal(number, note)
        yield
    finally:
        within = False
        for number, handler in before.items():
            signal.signal(number, handler)
    for number, frame in came[:1]:
        before[number](number, frame)


def ignore() -> None:
    """Ignore all signals until the end of `raised`, so that they cannot interrupt the final message."""
    for number in _handlers():
        signal.signal(number, signal.SIG_IGN)


def _handlers() -> dict[int, signal._HANDLER]:
    """Return the handler of each signal. Empty outside the main thread, because other threads cannot set handlers."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.getsignal(number) for number in SIGNALS}


def _raise(number: int, frame: FrameType | None) -> NoReturn:
    raise Interrupted(number)
