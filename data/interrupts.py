"""Ctrl-C, SIGTERM and a closed terminal as exceptions, deferred during steps that must not be interrupted."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Interrupted(KeyboardInterrupt):
    """SIGTERM or SIGHUP, raised like Ctrl-C; ``number`` is the signal."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextlib.contextmanager
def raised() -> Iterator[None]:
    """Within the block, SIGTERM and SIGHUP raise Interrupted; one that is ignored, as under nohup, stays ignored."""
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
    """Signals that arrive within the block are handled at its end."""
    before = {number: handler for number, handler in _handlers().items() if callable(handler)}
    came: list[tuple[int, FrameType | None]] = []
    within = True

    def note(number: int, frame: FrameType | None) -> None:
        # While the handlers are restored one by one, this one must act like them.
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
    """Ignore all signals until the end of `raised`, so that the final message is printed."""
    for number in _handlers():
        signal.signal(number, signal.SIG_IGN)


def _handlers() -> dict[int, signal._HANDLER]:
    """The handler of each signal; none outside the main thread, which cannot set handlers."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.getsignal(number) for number in SIGNALS}


def _raise(number: int, frame: FrameType | None) -> NoReturn:
    raise Interrupted(number)
