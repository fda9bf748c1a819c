"""Ctrl-C in a script, a terminal or a notebook: cancel the running jobs, then raise KeyboardInterrupt.

An exception in the middle of a py4j call leaves the answer unread on the connection. The next call may then fail, or
the job may continue. After Ctrl-C during such a call, another thread therefore cancels the jobs, and KeyboardInterrupt
is raised when the call returns. It is raised immediately if the call does not return within a few seconds, or if Ctrl-C
is pressed again.
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
"""How long to wait for a call to return. A call that is not waiting for a job does not notice the cancellation."""


@contextlib.contextmanager
def delayed() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block.

    A process that the block starts and stores can then be stopped when KeyboardInterrupt is raised.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    arrived: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: arrived.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    for number, frame in arrived[:1]:
        before(number, frame)


class Interrupts:
    """Handles SIGINT in the main thread, from `install` until `remove`. The function ``cancel`` cancels all jobs."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel
        self._before: Any = signal.default_int_handler
        self._thread = threading.get_ident()
        self._calls = 0
        self._pending = False
        self._returned = threading.Event()
        self._shell: Any = None

    def install(self, before: Any, client: Any) -> None:
        """Start handling SIGINT. ``before`` is the earlier handler, which is called after the jobs are cancelled.

        ``client`` is the py4j client that all calls use. If SIGINT was ignored, as in a shell's background job, it
        stays ignored.
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
            # A notebook's kernel installs Python's own handler before each cell.
            self._shell.events.register("pre_run_cell", self._reinstall)

    def remove(self) -> None:
        """Restore the earlier handler."""
        if self._shell is not None:
            self._shell.events.unregister("pre_run_cell", self._reinstall)
            self._shell = None
        if threading.get_ident() == self._thread and signal.getsignal(signal.SIGINT) == self.handle:
            signal.signal(signal.SIGINT, self._before)

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGINT. The first signal during a call cancels the jobs. All others call the earlier handler."""
        if self._calls and not self._pending:
            self._pending = True
            self._returned.clear()
            threading.Thread(target=self._let_return, daemon=True).start()
        else:
            self._pending = False
            self._before(number, frame)

    def _around(self, send: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls py4j's ``send`` and then raises an interrupt that is pending."""

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

    def _reinstall(self, *_: object) -> None:
        if threading.get_ident() == self._thread:
            signal.signal(signal.SIGINT, self.handle)
