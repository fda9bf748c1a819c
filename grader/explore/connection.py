"""One connection through the proxy: the bytes and the ends of its two directions, and what was decided about them.

| state | what happens | it ends when |
|---|---|---|
| connecting | nothing is read from the caller | the callee accepts (open) or refuses (closed) |
| open | each direction passes on, or holds, bytes and then the end | both ends have closed, or one was reset (closed) |
| silent | nothing passes; the callee does not notice | the caller closes, or after LATE seconds (closed; kept, alone) |
| kept | the caller was reset; its request waits | `arrive`, or after LATE seconds (alone); the callee closes (closed) |
| alone | the request has arrived, its caller is gone | the callee answers or closes, or after LATE seconds (closed) |

Bytes never change, and never overtake each other. That an end has closed reaches the other one behind all bytes, and a
reset is passed on as a reset. At most ROOM bytes of a direction are stored: then no more are read from the sender, and
a longer message that is held is cut into bursts.
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
import zlib
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from .cutter import BURST, CALLEE, CALLER, Cutter

ROOM, PIECE = 4 << 20, 256 << 10
"""The maximum number of bytes that are stored of a direction, and that are read or written at once."""
PAUSE = 0.003
"""Seconds without bytes that end a burst."""
START = 0.25
"""Seconds for which HTTP of a process that starts is held. Its other messages are not held at all."""
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with 0 seconds: `close` resets the connection."""


class Event(NamedTuple):
    """What has happened. Fields that do not apply are empty.

    ``what``: ``opened``, ``closed`` or ``refused`` (a connection); ``arrived`` (a message is held), ``passed`` (it was
    not held), ``delivered``, ``overdue`` (delivered after HOLD seconds), ``dropped``, ``kept`` (its caller was reset)
    or ``late`` (delivered after that); ``silent`` (nothing more passes on a connection), ``gone`` (its caller has given
    up); ``struck`` (processes were killed when a message arrived); ``done`` (a command, with ``why`` if it was not
    possible); or what `Proxies.note` said of the process ``sender``. Messages and connections have numbers from 1. The
    sender of a connection is its caller. ``kind`` and ``first`` are those of a `Cut`, ``size`` is in bytes, ``at`` in
    seconds of the monotonic clock, and ``crc`` is the checksum of a message that is held.
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
    at: float = 0.0
    crc: int = 0


class Message(NamedTuple):
    """A message that is held. ``since``: when its first byte arrived."""

    number: int
    end: End
    kind: str
    first: str
    data: bytes
    since: float

    def tell(self, what: str) -> None:
        """Report what happens to it."""
        self.end.tell(what, self.number, self.kind, self.first, len(self.data), zlib.crc32(self.data))


class Desk:
    """What all connections share: whether messages pass, what is held, and what must be reported.

    ``held``: the messages by their numbers. ``waiting``: the ends with something that is held, and ``timed``: the
    connections whose state has a time limit. ``starting``: the processes that start. ``strike``: called with each
    message that arrives and is held. ``look_at``: when to look again who listens. Times in seconds.
    """

    def __init__(self, hold: float, late: float) -> None:
        self.hold, self.late = hold, late
        self.passing = self.reporting = True
        self.selector = selectors.DefaultSelector()
        self.open: set[Connection] = set()
        self.timed: set[Connection] = set()
        self.waiting: set[End] = set()
        self.held: dict[int, Message] = {}
        self.kept: dict[int, Connection] = {}
        self.starting: frozenset[str] = frozenset()
        self.strike: Callable[[Message], None] = lambda message: None
        self.messages = self.connections = 0
        self.look_at = 0.0
        self.events: list[Event] = []

    def tell(self, event: Event) -> None:
        """Report an event, unless nothing is reported."""
        if self.reporting:
            self.events.append(event._replace(at=time.monotonic()))


class End:
    """One end of a connection: what it has sent, and what it must still take.

    ``part``: bytes of a message that is not whole, which has had ``size`` bytes so far; ``begun``: some of it was
    passed on, so its rest is not held. ``ended``: no more bytes come; ``reset``: because of a reset. ``out``: bytes
    that it must take; ``deaf``: it takes none; ``shut``: it knows that no more come.
    """

    def __init__(self, conn: Connection, way: int, sock: socket.socket) -> None:
        self.conn, self.desk, self.way = conn, conn.desk, way
        self.sock: socket.socket | None = sock
        self.held: deque[Message] = deque()
        self.part, self.out = bytearray(), bytearray()
        self.size = self.watched = 0
        self.since = self.last = 0.0
        self.begun = self.ended = self.reset = self.deaf = self.shut = False

    @property
    def other(self) -> End:
        """The end that it talks to."""
        return self.conn.ends[1 - self.way]

    def tell(self, what: str, number: int, kind: str, first: str, size: int, crc: int = 0) -> None:
        """Report what happens to a message of this end."""
        names = self.conn.names
        event = Event(what, names[self.way], names[1 - self.way], self.conn.number, number, kind, first, size, crc=crc)
        self.desk.tell(event)

    def due(self) -> float:
        """Return when the oldest that is held has to go on."""
        if self.held:
            oldest = self.held[0]
            return oldest.since + ((oldest.kind != BURST) * START if self.starting else self.desk.hold)
        return self.last + PAUSE if self.conn.cutter.opaque else self.since + self.desk.hold

    @property
    def starting(self) -> bool:
        """Whether one of the two processes starts."""
        return not self.desk.starting.isdisjoint(self.conn.names)

    def overdue(self) -> None:
        """Let the oldest that is held go on: deliver it, or make a burst of bytes that are no whole message."""
        if self.held:
            self.deliver(self.held[0], "delivered" if self.starting else "overdue")
        elif self.conn.cutter.opaque:
            self.queue(BURST, "")
        else:  # no end of a message can be found behind a part that was not read to its end
            self.conn.cutter.opaque = True

    def ready(self, events: int) -> None:
        """Write and read what is possible now."""
        if self.sock is not None and self.conn.state == "connecting":
            self.conn.connected(self.sock)
        elif self.sock is not None:
            if events & WRITE:
                self.flush()
            if events & READ:
                self.read(self.sock)
            self.conn.settle()

    def read(self, sock: socket.socket) -> None:
        """Read bytes, and cut them."""
        try:
            data = sock.recv(PIECE)
        except BlockingIOError:
            return
        except OSError:
            data, self.reset = b"", True
        if not data:
            self.end()
        elif self.conn.state != "silent":
            at = 0
            for stop, cut in self.conn.cutter.feed(self.way, data):
                self.add(data[at:stop], cut.kind, cut.first)
                at = stop
            if at < len(data):
                self.add(data[at:])

    def end(self) -> None:
        """No more bytes come. Those that are no whole message are the last one."""
        self.ended = True
        if self.way == CALLEE:
            self.desk.look_at = 0.0  # perhaps it no longer listens
        if self.conn.state == "silent":
            return self.conn.gone() if self.way == CALLER else None
        if self.part or self.begun:
            cut = self.conn.cutter.end(self.way)
            self.add(b"", cut.kind if cut else BURST, cut.first if cut else "")
        return None

    def add(self, data: bytes, kind: str = "", first: str = "") -> None:
        """Pass bytes on, or hold them. ``kind``: that of the message which ends with them, or "" if none does."""
        if self.conn.state == "closed":
            return
        self.last = time.monotonic()
        if not self.part:
            self.since = self.last
        self.part += data
        self.size += len(data)
        alone, opaque = self.other.sock is None, self.conn.cutter.opaque
        self.begun = self.begun and not opaque
        passing = self.desk.passing or self.begun or (opaque and self.starting and not self.held)
        if opaque and (alone or passing):
            kind = kind or BURST
        if alone:
            if kind:
                self.queue(kind, first)
                self.conn.close()
        elif passing:
            if kind:
                self.desk.messages += 1
                self.tell("passed", self.desk.messages, kind, first, self.size)
                self.size = 0
            self.begun = not kind
            self.other.send(self.part)
            self.part.clear()
        elif kind:
            self.queue(kind, first)
        elif len(self.part) >= ROOM:
            self.conn.cutter.opaque = True
            self.queue(BURST, "")
        else:
            self.desk.waiting.add(self)

    def queue(self, kind: str, first: str) -> None:
        """Hold a message."""
        self.desk.messages += 1
        message = Message(self.desk.messages, self, kind, first, bytes(self.part), self.since)
        self.part.clear()
        self.size = 0
        self.held.append(message)
        self.desk.held[message.number] = message
        self.desk.waiting.add(self)
        message.tell("arrived")
        self.desk.strike(message)

    def deliver(self, message: Message, what: str) -> None:
        """Deliver the first message that is held."""
        self.forget(message)
        message.tell(what)
        self.other.send(message.data)
        self.conn.settle()

    def forget(self, message: Message) -> None:
        """Hold a message no longer."""
        self.held.remove(message)
        del self.desk.held[message.number]
        if not self.held and not self.part:
            self.desk.waiting.discard(self)

    def drop(self) -> None:
        """Drop all that is held."""
        self.part.clear()
        for message in list(self.held):
            self.forget(message)
            message.tell("dropped")
        self.desk.waiting.discard(self)

    def send(self, data: bytes | bytearray) -> None:
        """Let the end take bytes."""
        if not self.deaf:
            self.out += data
            self.flush()

    def flush(self) -> None:
        """Write as much as the end takes now."""
        while self.out and self.sock is not None:
            try:
                del self.out[: self.sock.send(self.out[:PIECE])]
            except BlockingIOError:
                break
            except OSError:  # it has closed; what it has sent before can still be read
                self.out.clear()
                self.deaf = self.reset = True

    def watch(self) -> None:
        """Wait for what the end can do now."""
        stored = len(self.part) + len(self.other.out) + sum(len(each.data) for each in self.held)
        if self.conn.state == "connecting":
            events = WRITE if self.way == CALLEE else 0
        else:
            events = (0 if self.ended or stored >= ROOM else READ) | (WRITE if self.out else 0)
        if self.sock is not None and events != self.watched:
            if self.watched:
                self.desk.selector.unregister(self.sock)
            if events:
                self.desk.selector.register(self.sock, events, self.ready)
            self.watched = events

    def close(self, reset: bool) -> None:
        """Close the socket, and drop all that is held."""
        self.drop()
        self.out.clear()
        self.ended = self.deaf = True
        if self.sock is not None:
            if self.watched:
                self.desk.selector.unregister(self.sock)
            if reset:
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.sock.close()
            self.sock = None


class Connection:
    """A caller and a callee. ``until``: when the state silent, kept or alone ends."""

    def __init__(self, desk: Desk, names: tuple[str, str], caller: socket.socket, callee: socket.socket) -> None:
        desk.connections += 1
        self.desk, self.names, self.number = desk, names, desk.connections
        self.cutter, self.state = Cutter(), "connecting"
        self.ends = End(self, CALLER, caller), End(self, CALLEE, callee)
        self.kept: Message | None = None
        self.until = 0.0
        desk.open.add(self)

    def tell(self, what: str) -> None:
        """Report what happens to the connection."""
        self.desk.tell(Event(what, *self.names, self.number))

    def connected(self, callee: socket.socket) -> None:
        """Begin to pass bytes on, or close if the callee has refused."""
        if callee.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            return self.refuse()
        self.state = "open"
        self.tell("opened")
        return self.settle()

    def refuse(self) -> None:
        """Reset the caller, because the callee does not listen."""
        self.tell("refused")
        self.close()
        self.desk.look_at = 0.0

    def settle(self) -> None:
        """Pass on that an end has closed, behind all that it has sent, and wait for what comes next."""
        for end in self.ends:
            if not end.ended or end.held or end.part or end.other.out or self.state == "silent" or end.sock is None:
                continue  # not yet, not at all, or already: the caller of a late request was reset
            if end.reset or end.other.sock is None:
                self.close()
            elif not end.other.shut:
                end.other.shut = True
                try:
                    end.other.sock.shutdown(socket.SHUT_WR)
                except OSError:  # it has closed as well
                    end.other.deaf = end.other.reset = True
        if all(end.shut for end in self.ends):
            self.close(reset=False)
        for end in self.ends:
            end.watch()

    def close(self, reset: bool = True) -> None:
        """Close both ends. What is held is dropped."""
        if self.state != "closed":
            for end in self.ends:
                end.close(reset)
            if self.kept is not None:
                self.kept.tell("dropped")
                del self.desk.kept[self.kept.number]
            self.desk.open.discard(self)
            self.desk.timed.discard(self)
            self.state = "closed"
            self.tell("closed")

    def limit(self, state: str) -> None:
        """Begin a state that ends after ``late`` seconds."""
        self.state, self.until = state, time.monotonic() + self.desk.late
        self.desk.timed.add(self)

    def silence(self, kept: Message | None = None) -> None:
        """Let nothing more pass. ``kept``: a request that is kept until `arrive`."""
        if self.ends[CALLER].ended:
            return self.close()
        self.tell("silent")
        if kept is not None:
            self.store(kept)
        for end in self.ends:
            end.drop()
        return self.limit("silent")

    def gone(self) -> None:
        """The caller of a silent connection has given up."""
        self.tell("gone")
        if self.kept is None:
            return self.close()
        self.ends[CALLER].close(reset=True)
        self.state = "kept"
        return None

    def store(self, message: Message) -> None:
        """Keep a request."""
        message.end.forget(message)
        message.tell("kept")
        self.kept = message
        self.desk.kept[message.number] = self

    def keep(self, message: Message) -> None:
        """Reset the caller of a request, and keep the request."""
        self.store(message)
        self.ends[CALLER].close(reset=True)
        self.ends[CALLEE].drop()
        self.limit("kept")

    def arrive(self) -> None:
        """Deliver the request that was kept. Its answer reaches no caller."""
        if self.kept is not None:
            message, self.kept = self.kept, None
            del self.desk.kept[message.number]
            self.limit("alone")
            message.tell("late")
            self.ends[CALLEE].send(message.data)
            self.settle()

    def expire(self) -> None:
        """End a state whose time is over."""
        if self.kept is not None:
            self.ends[CALLER].close(reset=True)
            self.arrive()
        else:
            self.close()
