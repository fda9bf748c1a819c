"""The proxy between the processes of a shop: it passes their messages on, or holds each one until it is released.

    python -m grader.explore.proxy FD HOLD LATE

It is one process without threads, and it ends when the socket FD is closed. Commands and events are JSON lines on this
socket; `proxies.py` is the other side. A *route* leads from one process to another. Each connection on it is in one of
these states:

| state | what happens | it ends when |
|---|---|---|
| connecting | nothing is read from the caller | the callee accepts (open) or refuses (closed) |
| open | each direction passes on, or holds, bytes and then the end | both ends have closed, or one was reset (closed) |
| silent | nothing passes; the callee does not notice | the caller closes, or after LATE seconds (closed) |
| kept | the caller was reset; its request waits | `arrive`, a repeated request, or after LATE seconds (alone) |
| alone | the request has arrived, its caller is gone | the callee answers or closes, or after LATE seconds (closed) |

Nothing is held longer than HOLD seconds. After that it is delivered, with the event `overdue`. Bytes never change and
never overtake each other. At most ROOM bytes of a direction are stored. If they are full, no more are read from the
sender, and a longer message that is held is cut into bursts. While everything passes, bytes do not wait for the end of
their message.

A route refuses connections while its callee does not listen. This is read from /proc/net/tcp, because there is no event
for it. If a callee has stopped since the last look, the connection of a caller is reset instead of refused, with the
event `refused`.
"""

from __future__ import annotations

import errno
import json
import resource
import selectors
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from .cutter import BURST, CALLEE, CALLER, REQUEST, Cutter

ROOM, PIECE = 4 << 20, 256 << 10
"""The maximum number of bytes that are stored of a direction, and that are read at once."""
_PAUSE = 0.003
"""Seconds without bytes that end a burst."""
_SOON, _SELDOM = 0.005, 0.05
"""Seconds between two looks at who listens: while a callee does not, and while all do."""
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with 0 seconds: `close` resets the connection."""
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_LISTENS = "0A"


class Event(NamedTuple):
    """What has happened. Fields that do not apply are empty.

    ``what``: ``opened``, ``closed`` or ``refused`` (a connection); ``arrived`` (a message is held), ``passed`` (it was
    not held), ``delivered``, ``overdue`` (delivered after HOLD seconds), ``late`` (its caller is gone) or ``dropped``;
    ``done`` (a command, with ``why`` if it was not possible). Messages and connections have numbers from 1. The sender
    of a connection is its caller. ``kind`` and ``first`` are those of a `Cut`, ``size`` is in bytes.
    """

    what: str
    sender: str = ""
    receiver: str = ""
    connection: int = 0
    message: int = 0
    kind: str = ""
    first: str = ""
    size: int = 0
    why: str = ""


@dataclass(eq=False)
class Route:
    """The way from one process to another. ``at``: where the proxy listens; ``real``: where the callee does."""

    caller: str
    callee: str
    at: list[socket.socket]
    real: tuple[str, int]
    up: bool = False

    def reachable(self, listening: set[str]) -> bool:
        """Return whether the callee is among the listening addresses of /proc/net/tcp and tcp6."""
        host, port = socket.inet_aton(self.real[0])[::-1].hex().upper(), f":{self.real[1]:04X}"
        mapped = f"{'0' * 16}FFFF0000{host}"
        return not listening.isdisjoint({host + port, "0" * 8 + port, mapped + port, "0" * 32 + port})


@dataclass(eq=False)
class Message:
    """A message that is held."""

    number: int
    end: End
    kind: str
    first: str
    data: bytes
    since: float


@dataclass(eq=False)
class End:
    """One end of a connection: what it has sent, and what it must still take."""

    conn: Connection
    way: int
    sock: socket.socket | None
    events: int = 0
    part: bytearray = field(default_factory=bytearray)
    """The beginning of a message that it has sent."""
    size: int = 0
    """The bytes of this message so far, with those that were passed on."""
    begun: bool = False
    """Whether some of this message was passed on, so that the rest is not held."""
    since: float = 0.0
    last: float = 0.0
    """When the first and the last bytes of ``part`` arrived."""
    held: deque[Message] = field(default_factory=deque)
    ended: bool = False
    """No more bytes come from it."""
    reset: bool = False
    out: bytearray = field(default_factory=bytearray)
    """The bytes that it has not taken yet."""
    deaf: bool = False
    """It takes no more bytes."""
    shut: bool = False
    """It knows that no more bytes come from the other end."""

    @property
    def other(self) -> End:
        """The end that it talks to."""
        return self.conn.ends[1 - self.way]

    def full(self) -> bool:
        """Return whether nothing more of it can be stored."""
        return len(self.part) + len(self.other.out) + sum(len(each.data) for each in self.held) >= ROOM


class Connection:
    """A caller and a callee; see the states above. ``until``: when the state silent, kept or alone ends."""

    def __init__(self, number: int, route: Route, caller: socket.socket, callee: socket.socket) -> None:
        self.number, self.route, self.cutter, self.state = number, route, Cutter(), "connecting"
        self.ends = End(self, CALLER, caller), End(self, CALLEE, callee)
        self.kept: Message | None = None
        self.again, self.until = False, 0.0


class Proxy:
    """All routes and connections. ``hold`` and ``late`` in seconds."""

    def __init__(self, control: socket.socket, hold: float, late: float) -> None:
        self.hold, self.late = hold, late
        self.passing = self.reporting = True
        self.routes: list[Route] = []
        self.conns: set[Connection] = set()
        self.timed: set[Connection] = set()
        self.waiting: set[End] = set()
        self.held: dict[int, Message] = {}
        self.messages = self.connections = 0
        self.look_at = 0.0
        self.control, self.said, self.heard, self.closed = control, bytearray(), b"", False
        self.selector = selectors.DefaultSelector()
        self.selector.register(control, _READ, self._commanded)

    def run(self) -> None:
        """Serve until the control socket is closed."""
        while not self.closed:
            for key, events in self.selector.select(max(0.0, self._next() - time.monotonic())):
                key.data(events)
            self._tend()
            self._tell()

    def _next(self) -> float:
        """Return when something is due."""
        return min([self.look_at, *(conn.until for conn in self.timed), *(self._due(end) for end in self.waiting)])

    def _due(self, end: End) -> float:
        """Return when the oldest that is held of an end has to go on."""
        if end.held:
            return end.held[0].since + self.hold
        return end.last + _PAUSE if end.conn.cutter.opaque else end.since + self.hold

    def _tend(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        for end in list(self.waiting):
            while end in self.waiting and self._due(end) <= now:
                if end.held:
                    self._deliver(end.held[0], "overdue")
                elif end.conn.cutter.opaque:
                    self._queue(end, BURST, "")
                else:
                    end.conn.cutter.opaque = True  # its rest is unknown, so no end of a message can be found any more
                    end.other.last = now
                self._settle(end.conn)
        for conn in [conn for conn in self.timed if conn.until <= now]:
            if conn.state == "kept" and not conn.again:
                self._arrive(conn)
            else:
                self._break(conn)
        if self.look_at <= now:
            self._look(now)

    # Routes

    def _look(self, now: float) -> None:
        """Listen where the callee listens, and refuse connections elsewhere."""
        listening: set[str] = set()
        for name in ("tcp", "tcp6"):
            try:
                with open(f"/proc/net/{name}", encoding="ascii") as file:
                    next(file)
                    for line in file:
                        words = line.split(None, 4)
                        if words[3] != _LISTENS:
                            break  # sockets that listen come first
                        listening.add(words[1])
            except FileNotFoundError:
                continue  # a kernel without IPv6
        for route in self.routes:
            if route.up == (up := route.reachable(listening)):
                continue
            route.up = up
            for sock in route.at:
                # SO_REUSEADDR lets it listen beside earlier connections, but would give the address away until then.
                if up:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    sock.listen(4096)
                    self.selector.register(sock, _READ, partial(self._accept, route, sock))
                else:
                    self.selector.unregister(sock)
                    sock.shutdown(socket.SHUT_RD)  # it stays bound, and refuses
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        self.look_at = now + (_SELDOM if all(route.up for route in self.routes) else _SOON)

    def _accept(self, route: Route, listener: socket.socket, events: int) -> None:
        """Accept a caller, and begin to connect to its callee."""
        if not route.up:
            return
        try:
            caller, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # it has given up
        callee = socket.socket()
        for sock in (caller, callee):
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connections += 1
        conn = Connection(self.connections, route, caller, callee)
        self.conns.add(conn)
        if callee.connect_ex(route.real) in (0, errno.EINPROGRESS):
            self._watch(conn)
        else:
            self._refuse(conn)

    def _connected(self, conn: Connection, callee: socket.socket) -> None:
        if callee.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            return self._refuse(conn)
        conn.state = "open"
        self._report("opened", conn)
        return self._watch(conn)

    def _refuse(self, conn: Connection) -> None:
        self._report("refused", conn)
        self._break(conn)
        self.look_at = 0.0

    # Bytes

    def _ready(self, end: End, events: int) -> None:
        """Read from an end, and write to it."""
        conn = end.conn
        if events & _WRITE and end.sock is not None:
            if conn.state == "connecting":
                self._connected(conn, end.sock)
            else:
                self._flush(end)
        if events & _READ and end.sock is not None:
            try:
                data = end.sock.recv(PIECE)
            except BlockingIOError:
                return
            except OSError:
                data, end.reset = b"", True
            if data:
                self._take(end, data)
            else:
                self._ended(end)
        self._settle(conn)

    def _take(self, end: End, data: bytes) -> None:
        """Cut bytes that an end has sent."""
        at = 0
        if end.conn.state == "silent":
            return
        if not end.conn.cutter.opaque:
            for stop, cut in end.conn.cutter.feed(end.way, data):
                if end.conn.state == "closed":
                    return
                self._add(end, data[at:stop], cut.kind, cut.first)
                at = stop
        if at < len(data) and end.conn.state != "closed":
            self._add(end, data[at:])

    def _add(self, end: End, data: bytes, kind: str = "", first: str = "") -> None:
        """Pass bytes on, or hold them. ``kind``: that of the message which ends with them, or "" if none does."""
        end.last = time.monotonic()
        if not end.part:
            end.since = end.last
        end.part += data
        end.size += len(data)
        opaque = end.conn.cutter.opaque
        if end.conn.state in ("kept", "alone"):  # its caller is gone
            if kind or opaque:
                self._queue(end, kind or BURST, first)
                self._break(end.conn)
        elif self.passing or end.begun and not opaque:
            if kind or opaque:
                self.messages += 1
                self._report("passed", end.conn, end.way, self.messages, kind or BURST, first, end.size)
                end.size = 0
            end.begun = not (kind or opaque)
            self._send(end.other, end.part)
            end.part.clear()
            if kind == REQUEST:
                self._repeated(end.conn.route, first)
        elif kind:
            self._queue(end, kind, first)
        elif len(end.part) >= ROOM:
            end.conn.cutter.opaque = True
            self._queue(end, BURST, "")
        else:
            self.waiting.add(end)

    def _queue(self, end: End, kind: str, first: str) -> None:
        """Hold a message."""
        self.messages += 1
        message = Message(self.messages, end, kind, first, bytes(end.part), end.since)
        end.part.clear()
        end.size = 0
        end.held.append(message)
        self.held[message.number] = message
        self.waiting.add(end)
        self._told("arrived", message)

    def _deliver(self, message: Message, what: str) -> None:
        """Deliver the first message that is held of an end."""
        self._forget(message)
        self._told(what, message)
        self._send(message.end.other, message.data)
        if message.kind == REQUEST:
            self._repeated(message.end.conn.route, message.first)

    def _forget(self, message: Message) -> None:
        end = message.end
        end.held.remove(message)
        del self.held[message.number]
        if not end.held and not end.part:
            self.waiting.discard(end)

    def _send(self, end: End, data: bytes | bytearray) -> None:
        if not end.deaf:
            end.out += data
            self._flush(end)

    def _flush(self, end: End) -> None:
        """Write as much as the end takes now."""
        while end.out and end.sock is not None:
            try:
                sent = end.sock.send(end.out[:PIECE])
            except BlockingIOError:
                break
            except OSError:  # it has closed; what it has sent before can still be read
                end.out.clear()
                end.deaf = end.reset = True
                break
            del end.out[:sent]

    def _ended(self, end: End) -> None:
        """An end has closed. What it has sent of a message is the last message."""
        end.ended = True
        if end.way == CALLEE:
            self.look_at = 0.0  # perhaps it no longer listens
        if end.conn.state == "silent":
            return self._break(end.conn) if end.way == CALLER else None
        cut = None if end.conn.cutter.opaque else end.conn.cutter.end(end.way)
        if end.part or end.begun:
            self._add(end, b"", cut.kind if cut else BURST, cut.first if cut else "")
        return None

    def _settle(self, conn: Connection) -> None:
        """Pass on that an end has closed, behind all that it has sent."""
        for end in conn.ends:
            other = end.other
            if conn not in self.conns or not end.ended or end.held or end.part or other.out or conn.state == "silent":
                continue
            if end.sock is None:
                continue  # the caller is gone, and its request is kept or has arrived
            if end.reset or other.sock is None:
                self._break(conn)
            elif not other.shut:
                other.shut = True
                try:
                    other.sock.shutdown(socket.SHUT_WR)
                except OSError:  # it has closed as well
                    other.deaf = other.reset = True
        if conn in self.conns and all(end.shut for end in conn.ends):
            self._close(conn)
        self._watch(conn)

    def _watch(self, conn: Connection) -> None:
        """Wait for what each end can do now."""
        for end in conn.ends:
            events = 0
            if conn in self.conns and end.sock is not None:
                if conn.state != "connecting" and not end.ended and not end.full():
                    events |= _READ
                if end.out or conn.state == "connecting" and end.way == CALLEE:
                    events |= _WRITE
            if events != end.events:
                if events and end.events:
                    self.selector.modify(end.sock, events, partial(self._ready, end))  # type: ignore[arg-type]
                elif events:
                    self.selector.register(end.sock, events, partial(self._ready, end))  # type: ignore[arg-type]
                elif end.sock is not None:
                    self.selector.unregister(end.sock)
                end.events = events

    def _break(self, conn: Connection) -> None:
        """Reset both ends. What is held is dropped."""
        for end in conn.ends:
            self._shut(end)
        self._close(conn)

    def _shut(self, end: End) -> None:
        """Reset one end, and drop what it has sent."""
        for message in list(end.held):
            self._forget(message)
            self._told("dropped", message)
        end.part.clear()
        end.out.clear()
        self.waiting.discard(end)
        end.ended = end.deaf = True
        if end.sock is not None:
            end.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._drop(end)

    def _drop(self, end: End) -> None:
        """Close a socket. Unregister it first, because its number can be used again."""
        if end.sock is not None:
            if end.events:
                self.selector.unregister(end.sock)
            end.sock.close()
            end.sock, end.events = None, 0

    def _close(self, conn: Connection) -> None:
        if conn in self.conns:
            if conn.kept is not None:
                self._told("dropped", conn.kept)
            for end in conn.ends:
                self._drop(end)
            self.conns.remove(conn)
            self.timed.discard(conn)
            conn.state = "closed"
            self._report("closed", conn)

    # Requests that arrive late

    def _keep(self, message: Message, again: bool) -> None:
        """Reset the caller of a request, and keep the request."""
        conn = message.end.conn
        self._forget(message)
        self._shut(message.end)
        conn.kept, conn.again, conn.state = message, again, "kept"
        conn.until = time.monotonic() + self.late
        self.timed.add(conn)

    def _arrive(self, conn: Connection) -> None:
        """Deliver a request that was kept. Its answer reaches no caller."""
        assert conn.kept is not None
        message, conn.kept = conn.kept, None
        conn.state, conn.until = "alone", time.monotonic() + self.late
        self._told("late", message)
        self._send(conn.ends[CALLEE], message.data)
        self._settle(conn)

    def _repeated(self, route: Route, first: str) -> None:
        """A request has been delivered: deliver the ones that it repeats, too."""
        for conn in [conn for conn in self.timed if conn.again and conn.kept and conn.route is route]:
            if conn.kept is not None and conn.kept.first == first:
                self._arrive(conn)

    # Commands and events

    def _commanded(self, events: int) -> None:
        """Read commands, and do them."""
        if events & _READ:
            try:
                data = self.control.recv(PIECE)
            except ConnectionResetError:  # the other side was killed
                data = b""
            self.closed = not data
            *lines, self.heard = (self.heard + data).split(b"\n")
            for line in lines:
                do, *words = json.loads(line)
                command: Callable[..., str | None] = getattr(self, f"do_{do}")
                self._tell_event(Event("done", why=command(*words) or ""))

    def do_between(self, caller: str, callee: str, at: list[tuple[str, int]], real: tuple[str, int]) -> str:
        """Open a route."""
        route = Route(caller, callee, [], (real[0], real[1]))
        for host, port in at:
            sock = socket.socket()
            sock.setblocking(False)
            try:
                sock.bind((host, port))
            except OSError as error:
                for opened in (*route.at, sock):
                    opened.close()
                return f"{host}:{port}: {error.strerror}"
            route.at.append(sock)
        self.routes.append(route)
        self._look(time.monotonic())
        return ""

    def do_hold(self) -> None:
        """Hold each message that begins from now on."""
        self.passing, self.reporting = False, True

    def do_pass(self, reporting: bool) -> None:
        """Deliver what is held, and pass on what comes."""
        self.passing, self.reporting = True, reporting
        for message in sorted(self.held.values(), key=lambda each: each.number):
            self._deliver(message, "delivered")
        for end in list(self.waiting):
            self._add(end, b"")
            self.waiting.discard(end)
        for conn in list(self.conns):
            self._settle(conn)

    def do_look(self) -> None:
        """Look now which processes listen."""
        self._look(time.monotonic())

    def do_message(self, what: str, number: int) -> str:
        """Decide about the first message that is held of a direction, or about a request that is kept (``arrive``)."""
        if what == "arrive":
            conn = next((conn for conn in self.timed if conn.kept and conn.kept.number == number), None)
            if conn is None:
                return f"request {number} is not kept"
            self._arrive(conn)
            return ""
        message = self.held.get(number)
        if message is None or message.end.held[0] is not message:
            return f"message {number} is not held, or one of its direction comes first"
        conn = message.end.conn
        if what == "release":
            self._deliver(message, "delivered")
        elif what == "lose" or what == "silence" and conn.ends[CALLER].ended:
            self._break(conn)
        elif what == "silence":
            for end in conn.ends:
                for each in list(end.held):
                    self._forget(each)
                    self._told("dropped", each)
                end.part.clear()
                self.waiting.discard(end)
            conn.state, conn.until = "silent", time.monotonic() + self.late
            self.timed.add(conn)
        elif message.kind != REQUEST:
            return f"message {number} is not a request"
        else:
            self._keep(message, again=what == "again")
        self._settle(conn)
        return ""

    def _told(self, what: str, message: Message) -> None:
        end, size = message.end, len(message.data)
        self._report(what, end.conn, end.way, message.number, message.kind, message.first, size)

    def _report(self, what: str, conn: Connection, way: int = CALLER, *about: Any) -> None:
        """Report an event. ``way``: the end that has sent the message."""
        names = conn.route.caller, conn.route.callee
        if self.reporting:
            self._tell_event(Event(what, names[way], names[1 - way], conn.number, *about))

    def _tell_event(self, event: Event) -> None:
        self.said += json.dumps(event).encode() + b"\n"

    def _tell(self) -> None:
        """Write events, as many as the other side takes now."""
        while self.said and not self.closed:
            try:
                del self.said[: self.control.send(self.said[:PIECE])]
            except BlockingIOError:
                break
            except (BrokenPipeError, ConnectionResetError):
                self.closed = True
        self.selector.modify(self.control, _READ | (_WRITE if self.said else 0), self._commanded)


def main() -> None:
    """Run the proxy until the control socket is closed."""
    number, hold, late = sys.argv[1:]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with socket.socket(fileno=int(number)) as control:
        control.setblocking(False)
        Proxy(control, float(hold), float(late)).run()


if __name__ == "__main__":
    main()
