"""Ctrl-C, SIGTERM and the end of a terminal: as exceptions, and none in the middle of a step that must be whole."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Interrupted(KeyboardInterrupt):
    """A signal that shall be cleaned up after as Ctrl-C is; ``number`` says which."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextlib.contextmanager
def raised() -> Iterator[None]:
    """SIGTERM and SIGHUP are raised as Interrupted meanwhile, but for those that were ignored, as nohup has it."""
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
    """A signal that comes meanwhile is handled at the end."""
    before = {number: handler for number, handler in _handlers().items() if callable(handler)}
    came: list[tuple[int, FrameType | None]] = []
    within = True

    def note(number: int, frame: FrameType | None) -> None:
        # While the handlers are put back, one after the other, all of them act again.
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
    """No signal is handled from now on, until the end of :func:`raised`: what is left is to say what was done."""
    for number in _handlers():
        signal.signal(number, signal.SIG_IGN)


def _handlers() -> dict[int, signal._HANDLER]:
    """What handles each signal; none where another thread than the main one asks, which may handle none."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.getsignal(number) for number in SIGNALS}


def _raise(number: int, frame: FrameType | None) -> NoReturn:
    raise Interrupted(number)
