"""Ctrl-C in a script, a terminal or a notebook: the jobs are cancelled, then comes the KeyboardInterrupt.

An exception in the middle of a call to the JVM leaves the call's answer on the line,
and py4j's clearing up after it is a matter of luck: the next call may fail, or the job
run on. So an interrupt that comes inside such a call cancels the jobs from another
thread, and is raised when the call returns. A call that does not return, and a second
Ctrl-C, are interrupted where they are.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

RETURN_SECONDS = 3
"""A call that waits for no job does not return when the jobs are cancelled."""


@contextlib.contextmanager
def late() -> Iterator[None]:
    """An interrupt that comes meanwhile is raised at the end: what is begun here is in somebody's hands by then."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    for number, frame in came[:1]:
        before(number, frame)


class Interrupts:
    """Handles SIGINT between :meth:`install`, in the main thread, and :meth:`remove`; ``cancel`` cancels all jobs."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel
        self._before: Any = signal.default_int_handler
        self._thread = threading.get_ident()
        self._calls = 0
        self._pending = False
        self._returned = threading.Event()
        self._shell: Any = None

    def install(self, before: Any, client: Any) -> None:
        """Handle SIGINT from now on; ``before`` is the handler that is put back, and called in the end.

        ``client`` is py4j's, through which all calls go. Where SIGINT was ignored, as in a
        job in a shell's background, it stays so.
        """
        self._before = before
        if not callable(before):
            signal.signal(signal.SIGINT, before)
            return
        client.send_command = self._around(client.send_command)
        signal.signal(signal.SIGINT, self.handle)
        ipython = sys.modules.get("IPython")
        self._shell = None if ipython is None else ipython.get_ipython()
        if self._shell is not None:
            # A notebook's kernel puts Python's own handler in place for each cell.
            self._shell.events.register("pre_run_cell", self._again)

    def remove(self) -> None:
        """Put the earlier handler back."""
        if self._shell is not None:
            self._shell.events.unregister("pre_run_cell", self._again)
            self._shell = None
        if threading.get_ident() == self._thread and signal.getsignal(signal.SIGINT) == self.handle:
            signal.signal(signal.SIGINT, self._before)

    def handle(self, number: int, frame: FrameType | None) -> None:
        """What SIGINT does."""
        if self._calls and not self._pending:
            self._pending = True
            self._returned.clear()
            threading.Thread(target=self._let_return, daemon=True).start()
        else:
            self._pending = False
            self._before(number, frame)

    def _around(self, send: Callable[..., Any]) -> Callable[..., Any]:
        """A call to the JVM after which a pending interrupt is raised."""

        def sent(command: str, retry: bool = True, binary: bool = False) -> Any:
            if threading.get_ident() != self._thread:
                return send(command, retry, binary)
            self._calls += 1
            try:
                answer = send(command, retry, binary)
            finally:
                self._calls -= 1
            if self._pending and not self._calls:
                self._pending = False
                self._returned.set()
                self._before(signal.SIGINT, sys._getframe())
            return answer

        return sent

    def _let_return(self) -> None:
        self._cancel()
        if not self._returned.wait(RETURN_SECONDS) and self._pending:
            signal.pthread_kill(self._thread, signal.SIGINT)

    def _again(self, *_: object) -> None:
        if threading.get_ident() == self._thread:
            signal.signal(signal.SIGINT, self.handle)
