"""The explorer's side of the proxy: starts its process, sends commands, and returns what has happened.

>>> with Proxies() as proxies:
...     proxies.hold()
...     proxies.events(0.0)
[]
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from ..errors import VoidError
from .connection import Event

HOLD, LATE = 3.0, 10.0
"""The maximum number of seconds for which a message is held, and after which a request can still arrive; see "What can
happen between your processes" in docs/assignment.md."""
_PACKAGE = Path(__file__).resolve().parent.parent.parent
Address = tuple[str, int]


class Proxies:
    """The proxy's process; see `connection` for the states of a connection. A context manager. Not thread-safe."""

    def __init__(self, hold: float = HOLD, late: float = LATE, namespaces: tuple[str, ...] = ()) -> None:
        """Start the process. ``hold`` and ``late``: seconds; ``namespaces``: those that it enters."""
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-P", "-m", "grader.explore.proxy", str(theirs.fileno())]
        command += [str(hold), str(late), *namespaces]
        environment = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(_PACKAGE)}
        # A new session, so that Ctrl-C reaches only the grader. When the grader ends, the child does, too.
        self._process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL, start_new_session=True
        )
        theirs.close()
        self._control, self._heard = ours, b""
        self._events: list[Event] = []
        self.overdue = 0
        """How many messages have been held for so long that they were delivered."""

    @property
    def pid(self) -> int:
        """The process id of the proxy."""
        return self._process.pid

    def between(self, caller: str, callee: str, at: Sequence[Address], real: Address) -> None:
        """Open a route: connections to an address in ``at`` lead to ``real``. Raises OSError if one is in use."""
        if why := self._do("between", caller, callee, list(at), real):
            raise OSError(why)

    def hold(self) -> None:
        """Hold each message that begins from now on."""
        self._do("hold")

    def pass_on(self, report: bool = True) -> None:
        """Deliver what is held, and pass on what comes. ``report``: whether there are events of it."""
        self._do("pass", report)

    def look(self) -> None:
        """Find out now which processes listen, for example after a kill."""
        self._do("look")

    def release(self, message: int) -> None:
        """Deliver a message. This and all below raise LookupError if it is not the first held one of its direction."""
        self._decide("release", message)

    def lose(self, message: int) -> None:
        """Break the connection: the request has not arrived, or the answer is lost."""
        self._decide("lose", message)

    def silence(self, message: int, keep: bool = False) -> None:
        """Let nothing more pass on its connection, which breaks when the caller gives up, or after ``late`` seconds.

        ``keep``: it is a request, which arrives after that, as one that was delayed.
        """
        self._decide("silence", message, keep)

    def delay(self, message: int) -> None:
        """Break the connection for the caller of a request, which arrives at `arrive`, or after ``late`` seconds."""
        self._decide("keep", message)

    def arrive(self, message: int) -> None:
        """Deliver a request that was kept, when its caller has given up. Its answer reaches no caller.

        If this is done after its sender has sent it again, on another connection, it arrives twice.
        """
        self._decide("arrive", message)

    def note(self, what: str, process: str) -> None:
        """Put a moment of a process among the events, behind all that it has sent until now."""
        self._do("note", what, process)

    def starting(self, processes: Sequence[str]) -> None:
        """Say which processes start, so that their messages are not held as usual."""
        self._do("starting", list(processes))

    def aim(self, pids: Iterable[int], words: str = "", nth: int = 0, names: Mapping[str, str] | None = None) -> None:
        """Kill processes at once when the nth message with these words (see `steps.message`) is held; none: never."""
        self._do("aim", list(pids), words, nth, dict(names or {}))

    def strangers(self, real: Mapping[str, Address]) -> set[tuple[str, str]]:
        """Return the connections to processes that pass no proxy, each as the process and its other end."""
        self._do("strangers", dict(real))
        found = {(event.receiver, event.first) for event in self._events if event.what == "stranger"}
        self._events = [event for event in self._events if event.what != "stranger"]
        return found

    def _decide(self, *command: object) -> None:
        if why := self._do(*command):
            raise LookupError(why)

    def _do(self, *command: object) -> str:
        """Send a command and wait until it is done. Returns why it was not possible, or ""."""
        try:
            self._control.sendall(json.dumps(command).encode() + b"\n")
        except BrokenPipeError:
            self._receive()  # raises
        while True:
            for at, event in enumerate(self._events):
                if event.what == "done":
                    del self._events[at]
                    return event.why
            self._receive()

    def _receive(self) -> None:
        try:
            data = self._control.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        if not data:
            raise VoidError(f"the proxy's process has exited with {self._process.wait(5)}; its output is above")
        *lines, self._heard = (self._heard + data).split(b"\n")
        events = [Event(*json.loads(line)) for line in lines]
        self.overdue += sum(event.what == "overdue" for event in events)
        self._events += events

    def events(self, seconds: float) -> list[Event]:
        """Return what has happened since the last call; if nothing has, wait up to ``seconds`` for it.

        Raises VoidError if the proxy has ended.
        """
        if select.select([self._control], [], [], 0.0 if self._events else seconds)[0]:
            self._receive()
        found, self._events = self._events, []
        return found

    def until(self, found: Callable[[Event], bool], seconds: float) -> list[Event]:
        """Return the events up to the first one that ``found`` accepts. Raises TimeoutError if none comes in time."""
        seen, last = self.events(0.0), time.monotonic() + seconds
        while True:
            for at, event in enumerate(seen):
                if found(event):
                    self._events = seen[at + 1 :] + self._events
                    return seen[: at + 1]
            if time.monotonic() > last:
                raise TimeoutError(f"not among {seen[-5:]}")
            seen += self.events(max(0.0, last - time.monotonic()))

    def close(self) -> None:
        """End the process, and with it every connection."""
        self._control.close()
        self._process.wait()

    def __enter__(self) -> Proxies:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
