"""Connections: HTTP/1.1 to clients, and lines of JSON between the services.

A connection reads when data has arrived and writes at once. What the kernel has no room for is kept and written later.
"""

import json
import re
import socket

LONGEST = 1 << 16
"""A client may send this many bytes that the service has not handled yet. Then its connection is closed."""
READ = 1 << 18
"""Bytes to read from a socket at once."""
MANY = 10_000_000
"""A request may create this many things."""
REASONS = {200: b"OK", 400: b"Bad Request", 503: b"Service Unavailable"}
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d{1,9}) *(?:\r\n|$)", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)


def answer(status, value):
    """An HTTP answer as bytes.

    >>> answer(200, {"stock": 3})
    b'HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: 12\\r\\n\\r\\n{"stock": 3}'
    """
    body = json.dumps(value).encode()
    head = b"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (status, REASONS[status], len(body)) + body


DONE = answer(200, {"done": True})
REFUSED = answer(400, {"error": "refused; nothing has changed"})
BATCH_DONE = answer(200, {"msg": "done"})
AWAY = answer(503, {"error": "a service is restarting; try again"})


def amount_in(text, most=1 << 53):
    """The number in a path. Raises ValueError unless it is written in ASCII digits, and is from 0 to ``most``.

    >>> amount_in("12")
    12
    """
    if not (text.isascii() and text.isdigit()) or len(text) > 16 or int(text) > most:
        raise ValueError(f"{text!r} is not a whole number from 0 to {most}")
    return int(text)


class Wire:
    """A connection. Subclasses define ``heard()``, which handles `unread`, and ``lost()``."""

    def __init__(self, loop, sock):
        self.loop, self.sock = loop, sock
        self.unread = self.unsent = b""
        loop.watch(sock, self.ready)

    def ready(self):
        """Called by the loop."""
        if self.unsent:
            self.write(b"")
            self.heard()
        if self.sock is None:
            return
        try:
            data = self.sock.recv(READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self.receive(data)
        else:
            self.close()

    def receive(self, data):
        """Handle bytes that have arrived."""
        self.unread += data
        self.heard()

    def write(self, data):
        """Send bytes. Without effect if the connection is closed."""
        if self.sock is None:
            return
        full, data = bool(self.unsent), self.unsent + data
        try:
            self.unsent = data[self.sock.send(data) :]
        except BlockingIOError:
            self.unsent = data
        except OSError:
            return self.close()
        if full != bool(self.unsent):
            self.loop.watch_room(self.sock, bool(self.unsent))

    def close(self):
        """Close the connection, and call ``lost()``. Nothing is heard from it afterwards."""
        if self.sock is not None:
            self.loop.forget(self.sock)
            self.sock.close()
            self.sock = None
            self.lost()

    def lost(self):
        """The connection has been closed."""


class Client(Wire):
    """An HTTP connection. ``serve(client, request)`` handles each request, and calls `answer` once, then or later.

    A request is its first line without the version, such as b"POST /checkout/7". The next request of a connection is
    handled after the current one is answered. Bodies are skipped.
    """

    _fields = {}
    """What `parse` returned for header fields. A client sends the same fields with each request."""

    def __init__(self, loop, sock, serve):
        self.serve, self.busy, self.last = serve, False, False
        super().__init__(loop, sock)

    def heard(self):
        """Handle requests until one is incomplete or is not answered at once."""
        while self.unread and not self.busy and not self.unsent and self.sock:
            head, end, rest = self.unread.partition(b"\r\n\r\n")
            if not end:
                break
            line, _, fields = head.partition(b"\r\n")
            size, last = self._fields.get(fields) or self.parse(fields)
            if len(rest) < size:
                break
            request, _, version = line.rpartition(b" ")
            self.unread, self.busy, self.last = rest[size:], True, last or version != b"HTTP/1.1"
            self.serve(self, request)
        finished = self.last and not self.busy and not self.unsent
        if finished or len(self.unread) > LONGEST:
            self.close()

    def parse(self, fields):
        """The length of a body and whether this is the last request of the connection."""
        text = b"\r\n" + fields
        length = _LENGTH.search(text)
        found = int(length[1]) if length else 0, _CLOSE.search(text) is not None
        if len(self._fields) < 1000:
            self._fields[fields] = found
        return found

    def answer(self, raw):
        """Answer the current request."""
        self.busy = False
        self.write(raw)
        if self.unread or self.last:
            self.loop.after(0, self.heard)

    def detach(self):
        """Give up the connection without closing it. Returns its socket and the bytes that are not handled yet."""
        sock, self.sock = self.sock, None
        self.loop.forget(sock)
        return sock, self.unread


class Link(Wire):
    """A connection between two services. A message is a line of JSON. ``told(line)`` handles each."""

    def __init__(self, loop, sock, told, lost=lambda: None):
        self.told, self.lost = told, lost
        super().__init__(loop, sock)

    @classmethod
    def connect(cls, loop, port, first, told, lost):
        """Connect to a service, and send ``first``. Raises OSError if it does not accept connections."""
        sock = socket.create_connection(("127.0.0.1", port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = cls(loop, sock, told, lost)
        link.write(first)
        return link

    def heard(self):
        """Handle all complete lines."""
        *lines, self.unread = self.unread.split(b"\n")
        for line in lines:
            if self.sock:
                self.told(line)

    def send(self, *message):
        """Send a message."""
        self.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
