"""The reasons to end: a signal, or the end of the process that called us.

GNU make passes SIGTERM on to what it runs, but not SIGINT, SIGHUP or SIGQUIT: from a
terminal these reach everyone at once, so make sets the signal back to its default and
waits. Sent to make alone they would therefore never be heard here; on Linux the change of
its disposition can be seen, and with ``--watch-parent`` it is looked for.
"""

from __future__ import annotations

import os
import re
import select
import signal
import socket
from pathlib import Path
from types import FrameType

KEPT = sum(1 << (number - 1) for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT))
"""Signals that make keeps to itself, as the bits of /proc/PID/status."""


class Ended(BaseException):
    """Raised once in the main thread when it is time to end; like KeyboardInterrupt, it is no error."""


class Watch:
    """Turns the reasons to end into one :class:`Ended`, and waits without missing one.

    From its making on, the first SIGINT, SIGTERM or SIGHUP raises Ended wherever the
    main thread is, and later ones only set :attr:`hurry`. A SIGHUP that is ignored
    (``nohup``) stays ignored.
    """

    def __init__(self, *, parent: bool) -> None:
        self.hurry = False
        """Whether someone asked again while we were ending."""
        self._asked = False
        self._parent = os.getppid() if parent else None
        self._caught = self._catches()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        self._wake, self._waker = ours, theirs
        self._descriptor = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        self._before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        for number, handler in self._before.items():
            if number is not signal.SIGHUP or handler is not signal.SIG_IGN:
                signal.signal(number, self._signalled)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *error: object) -> None:
        """Give the signals back to whoever had them."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._descriptor)
        self._wake.close()
        self._waker.close()

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            self.hurry = True
            return
        self._asked = True
        raise Ended

    def ending(self) -> None:
        """We are ending for a reason of our own: raise no more."""
        self._asked = True

    def pause(self, seconds: float) -> None:
        """Wait this long at most, or until a signal comes. Raises Ended also where the parent wants to end or has."""
        if select.select([self._wake], [], [], seconds)[0]:
            self._wake.recv(64)
        if self._parent is None or self._asked:
            return
        if os.getppid() != self._parent or self._caught & ~self._catches():
            self._asked = True
            raise Ended

    def _catches(self) -> int:
        """Those of :data:`KEPT` that the parent has a handler for, as bits; 0 where that cannot be seen."""
        status = Path(f"/proc/{self._parent}/status")
        try:
            found = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status.read_text(), re.MULTILINE)
        except OSError:
            return 0
        return int(found[1], 16) & KEPT if found else 0
