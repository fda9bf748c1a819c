"""The proxy between the processes of a shop: it passes their messages on, or holds each one until it is released.

    python -m grader.explore.proxy FD HOLD LATE [USER_NAMESPACE NETWORK_NAMESPACE]

It is one process without threads, and it ends when the socket FD is closed. Commands and events are JSON lines on this
socket; `proxies.py` is the other side. A *route* leads from one process to another; `connection.py` has the states of
each connection on it. Nothing is held longer than HOLD seconds: after that it is delivered, with the event `overdue`.
While everything passes, bytes do not wait for the end of their message.

A route refuses connections while its callee does not listen. This is read from /proc/net/tcp, because there is no event
for it. If a callee has stopped since the last look, the connection of a caller is reset instead of refused, with the
event `refused`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import NamedTuple

from ..wire.network import enter
from .connection import PIECE, READ, WRITE, Connection, Desk, Event, Message
from .cutter import REQUEST
from .steps import message as words_of

_SOON, _SELDOM = 0.005, 0.05
"""Seconds between two looks at who listens: while a callee does not, and while all do."""
_LISTENS, _CONNECTED = "0A", ("01", "04", "05", "06", "08")
"""States of /proc/net/tcp. TIME_WAIT is among those of connections."""
_RECENT = 4096
"""How many of its own ports the proxy remembers."""


class Route(NamedTuple):
    """The way from a caller to a callee. ``at``: where the proxy listens; ``real``: where the callee does."""

    names: tuple[str, str]
    at: list[socket.socket]
    real: tuple[str, int]

    def reachable(self, listening: set[str]) -> bool:
        """Return whether the callee is among the listening addresses of /proc/net/tcp and tcp6."""
        host, port = socket.inet_aton(self.real[0])[::-1].hex().upper(), f":{self.real[1]:04X}"
        mapped = f"{'0' * 16}FFFF0000{host}"
        return not listening.isdisjoint({host + port, "0" * 8 + port, mapped + port, "0" * 32 + port})


class Proxy:
    """All routes. ``hold`` and ``late`` in seconds."""

    def __init__(self, control: socket.socket, hold: float, late: float) -> None:
        self.desk = Desk(hold, late)
        self.routes: list[Route] = []
        self.listening: set[socket.socket] = set()
        self.control, self.said, self.heard, self.closed = control, bytearray(), b"", False
        self.ports = deque[int](maxlen=_RECENT)
        self.desk.selector.register(control, READ, self._commanded)

    def run(self) -> None:
        """Serve until the control socket is closed."""
        desk = self.desk
        while not self.closed:
            due = min([desk.look_at, *(conn.until for conn in desk.timed), *(end.due() for end in desk.waiting)])
            for key, events in desk.selector.select(max(0.0, due - time.monotonic())):
                key.data(events)
            now = time.monotonic()
            for end in list(desk.waiting):
                while end in desk.waiting and end.due() <= now:
                    end.overdue()
            for conn in [conn for conn in desk.timed if conn.until <= now]:
                conn.expire()
            if desk.look_at <= now:
                self.do_look()
            self._tell()

    def do_look(self) -> None:
        """Listen where callees listen, and refuse connections elsewhere."""
        listening: set[str] = set()
        for name in ("tcp", "tcp6"):
            with contextlib.suppress(FileNotFoundError), open(f"/proc/net/{name}", encoding="ascii") as file:
                next(file)  # the names of the columns; then, sockets that listen come first
                rows = takewhile(lambda row: row[3] == _LISTENS, (line.split(None, 4) for line in file))
                listening |= {row[1] for row in rows}
        for route in self.routes:
            up = route.reachable(listening)
            for sock in route.at:
                # SO_REUSEADDR lets it listen beside earlier connections, but would give the address away until then.
                if up and sock not in self.listening:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    sock.listen(4096)
                    self.listening.add(sock)
                    self.desk.selector.register(sock, READ, partial(self._accept, route, sock))
                elif sock in self.listening and not up:
                    self.desk.selector.unregister(sock)
                    self.listening.remove(sock)
                    sock.shutdown(socket.SHUT_RD)  # it stays bound, and refuses
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        bound = sum(len(route.at) for route in self.routes)
        self.desk.look_at = time.monotonic() + (_SOON if len(self.listening) < bound else _SELDOM)

    def _accept(self, route: Route, listener: socket.socket, events: int) -> None:
        """Accept a caller, and begin to connect to its callee."""
        if listener not in self.listening:
            return
        try:
            caller, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # it has given up
        callee = socket.socket()
        for sock in (caller, callee):
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        conn = Connection(self.desk, route.names, caller, callee)
        if callee.connect_ex(route.real) in (0, errno.EINPROGRESS):
            self.ports.append(callee.getsockname()[1])
            conn.settle()
        else:
            conn.refuse()

    def _commanded(self, events: int) -> None:
        """Read commands, and do them."""
        if events & READ:
            try:
                data = self.control.recv(PIECE)
            except ConnectionResetError:  # the other side was killed
                data = b""
            self.closed = not data
            *lines, self.heard = (self.heard + data).split(b"\n")
            for line in lines:
                do, *words = json.loads(line)
                command: Callable[..., None] = getattr(self, f"do_{do}")
                why = ""
                try:
                    command(*words)
                except LookupError as error:
                    why = error.args[0]
                self.desk.events.append(Event("done", why=why))

    def _tell(self) -> None:
        """Write events, as many as the other side takes now. A command is done behind all that it has caused."""
        events = sorted(self.desk.events, key=lambda event: event.what == "done")
        self.said += b"".join(json.dumps(event).encode() + b"\n" for event in events)
        self.desk.events.clear()
        try:
            while self.said:
                del self.said[: self.control.send(self.said[:PIECE])]
        except BlockingIOError:
            self.desk.selector.modify(self.control, READ | WRITE, self._commanded)
        except (BrokenPipeError, ConnectionResetError):
            self.closed = True
        else:
            self.desk.selector.modify(self.control, READ, self._commanded)

    def do_between(self, caller: str, callee: str, at: list[tuple[str, int]], real: tuple[str, int]) -> None:
        """Open a route."""
        route = Route((caller, callee), [], (real[0], real[1]))
        for host, port in at:
            sock = socket.socket()
            sock.setblocking(False)
            route.at.append(sock)
            try:
                sock.bind((host, port))
            except OSError as error:
                for opened in route.at:
                    opened.close()
                raise LookupError(f"{host}:{port}: {error.strerror}") from error
        self.routes.append(route)
        self.do_look()

    def do_hold(self) -> None:
        """Hold each message that begins from now on."""
        self.desk.passing, self.desk.reporting = False, True

    def do_pass(self, reporting: bool) -> None:
        """Deliver what is held, and pass on what comes."""
        self.desk.passing, self.desk.reporting = True, reporting
        for number in sorted(self.desk.held):
            if message := self.desk.held.get(number):
                message.end.deliver(message, "delivered")
        for end in list(self.desk.waiting):
            self.desk.waiting.discard(end)
            end.add(b"")
            end.conn.settle()

    def do_release(self, number: int) -> None:
        """Deliver a message."""
        message = self._first(number)
        message.end.deliver(message, "delivered")

    def do_lose(self, number: int) -> None:
        """Break the connection of a message."""
        self._first(number).end.conn.close()

    def do_silence(self, number: int, keep: bool = False) -> None:
        """Let nothing more pass on the connection of a message. ``keep``: it is a request, kept until `do_arrive`."""
        message = self._first(number, request=keep)
        message.end.conn.silence(message if keep else None)

    def do_keep(self, number: int) -> None:
        """Reset the caller of a request, and keep it until `do_arrive`."""
        message = self._first(number, request=True)
        message.end.conn.keep(message)

    def do_arrive(self, number: int) -> None:
        """Deliver a request that is kept."""
        if number not in self.desk.kept:
            raise LookupError(f"request {number} is not kept")
        if self.desk.kept[number].state == "silent":
            raise LookupError(f"the caller of request {number} still waits")
        self.desk.kept[number].arrive()

    def do_note(self, what: str, process: str) -> None:
        """Put a moment of a process among the events, behind all that it has sent until now."""
        self.desk.tell(Event(what, process))

    def do_starting(self, processes: Sequence[str]) -> None:
        """Say which processes start. What is not HTTP passes, and their HTTP is held for START seconds."""
        self.desk.starting = frozenset(processes)

    def do_aim(self, pids: Sequence[int], words: str, nth: int, names: Mapping[str, str]) -> None:
        """Kill processes as soon as the nth message with these words is held. No pids: never."""
        left = nth

        def strike(message: Message) -> None:
            nonlocal left
            caller, callee = message.end.conn.names[message.end.way], message.end.conn.names[1 - message.end.way]
            left -= words_of(Event("", caller, callee, kind=message.kind, first=message.first), names) == words
            if not left:
                self.desk.strike = lambda message: None
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                message.tell("struck")

        self.desk.strike = strike if pids else lambda message: None

    def do_strangers(self, real: Mapping[str, tuple[str, int]]) -> None:
        """Report each connection to a process that passes no proxy. ``real``: where the processes listen."""
        for name in ("tcp", "tcp6"):
            with contextlib.suppress(FileNotFoundError), open(f"/proc/net/{name}", encoding="ascii") as file:
                next(file)
                for _, local, remote, state, *_ in (line.split(None, 5) for line in file):
                    own = int(local.rpartition(":")[2], 16)
                    for process, (host, port) in real.items():
                        there = Route(("", ""), [], (host, port)).reachable({remote})
                        if there and state in _CONNECTED and own not in self.ports:
                            self.desk.events.append(Event("stranger", receiver=process, first=local))

    def _first(self, number: int, request: bool = False) -> Message:
        """Return a message that is held. Raises LookupError if it is not the first one of its direction.

        ``request``: it must also be a request.
        """
        message = self.desk.held.get(number)
        if message is None or message.end.held[0] is not message:
            raise LookupError(f"message {number} is not held, or one of its direction comes first")
        if request and message.kind != REQUEST:
            raise LookupError(f"message {number} is not a request")
        return message


def main() -> None:
    """Run the proxy until the control socket is closed."""
    number, hold, late, *namespaces = sys.argv[1:]
    enter(namespaces)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with socket.socket(fileno=int(number)) as control:
        control.setblocking(False)
        Proxy(control, float(hold), float(late)).run()


if __name__ == "__main__":
    main()
