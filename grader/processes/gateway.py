"""The gateway that checkout.toml can name: a program that sends each request to the service of its path.

    python -I -S gateway.py ADDRESS PORT PREFIX=URL ...

It is never imported. A prefix works as ``proxy_pass`` of nginx does. If the URL has a path, this path replaces the
prefix; otherwise the path of the request stays as it is. The longest prefix wins. A prefix that is given several times
has several addresses, which take turns.

Each request opens its own connection to the service, as nginx does by default. The service could close a reused
connection at the moment of the request, and the client would not know whether the request had an effect. If a service
refuses the connection, the next address of its prefix is tried; if all do, the answer is 502. It is also 502 if the
service closes the connection before its answer is complete. There are no retries and no timeouts.
"""

from __future__ import annotations

import errno
import select
import socket
import sys
from collections.abc import Iterable
from urllib.parse import urlsplit

PIECE, LONGEST_HEAD, LONGEST = 65_536, 65_536, 64 << 20
BACKLOG = 4096
HOP = {b"connection", b"keep-alive", b"proxy-connection", b"te", b"upgrade", b"expect", b"host"}
"""Headers that concern one connection, or that the gateway sets itself."""
READ, WRITE = select.EPOLLIN | select.EPOLLRDHUP, select.EPOLLOUT


Service = tuple[str, int, bytes]
"""The host, the port and the path of an address."""
Lines = list[tuple[bytes, bytes]]
"""The lines of a head after the first one, each with the name of its header in lower case."""


class Route:
    """A prefix and the addresses of its service."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.services: list[Service] = []
        self.turn = 0

    def add(self, url: str) -> None:
        """Add an address."""
        parts = urlsplit(url)
        self.services.append((parts.hostname or "", parts.port or 80, parts.path.encode()))

    def next(self) -> list[Service]:
        """Return all addresses, beginning with the one whose turn it is."""
        self.turn = (self.turn + 1) % len(self.services)
        return self.services[self.turn :] + self.services[: self.turn]


def head_of(data: bytearray) -> tuple[bytes, Lines, int] | None:
    """Return the first line, the other lines and the length of a message's head; None if the head is incomplete."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return None
    first, *lines = bytes(data[:end]).split(b"\r\n")
    return first, [(line.partition(b":")[0].strip().lower(), line) for line in lines], end + 4


def value_of(lines: Lines, name: bytes) -> bytes | None:
    """Return the value of a header in lower case, or None."""
    return next((line.partition(b":")[2].strip().lower() for key, line in lines if key == name), None)


def length_of(lines: Lines) -> int | None:
    """Return the value of Content-Length, or None. Raises ValueError if it is not a number."""
    said = value_of(lines, b"content-length")
    if said is not None and not said.isdigit():
        raise ValueError(said)
    return None if said is None else int(said)


class Gateway:
    """The event loop. ``handlers`` maps descriptors to the objects that handle their events."""

    def __init__(self, listener: socket.socket, routes: Iterable[Route]) -> None:
        self.routes = sorted(routes, key=lambda route: -len(route.prefix))
        self.epoll = select.epoll()
        self.handlers: dict[int, Client | Call] = {}
        self.listener = listener
        self.epoll.register(listener.fileno(), select.EPOLLIN)

    def run(self) -> None:
        """Serve until the process is killed."""
        while True:
            for number, events in self.epoll.poll():
                handler = self.handlers.get(number)
                if handler is not None:
                    handler.ready(events)
                elif number == self.listener.fileno():
                    self.accept()

    def accept(self) -> None:
        """Accept one connection. Its client may already have given up."""
        try:
            sock, _ = self.listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.watch(sock, Client(self, sock), READ)

    def watch(self, sock: socket.socket, handler: Client | Call, events: int) -> None:
        """Call ``handler.ready`` at these events of a socket."""
        self.handlers[sock.fileno()] = handler
        self.epoll.register(sock.fileno(), events)

    def forget(self, sock: socket.socket) -> None:
        """Close a socket."""
        self.handlers.pop(sock.fileno(), None)
        sock.close()

    def route(self, path: str) -> Route | None:
        """Return the route of a path, or None."""
        return next((route for route in self.routes if path.startswith(route.prefix)), None)


class Client:
    """A connection from a client. Its requests are served one after the other."""

    def __init__(self, gateway: Gateway, sock: socket.socket) -> None:
        self.gateway, self.sock = gateway, sock
        self.inbox, self.outbox = bytearray(), b""
        self.call: Call | None = None
        self.last = False

    def ready(self, events: int) -> None:
        """Send what is left of an answer, and read requests."""
        try:
            if events & WRITE:
                self.flush()
                self.gateway.epoll.modify(self.sock.fileno(), READ)
                self.advance()
            else:
                data = self.sock.recv(PIECE)
                self.inbox += data
                if not data or len(self.inbox) > LONGEST:
                    return self.close()
                self.advance()
        except BlockingIOError:
            return None
        except OSError:
            self.close()
        return None

    def advance(self) -> None:
        """Begin the next request if it is complete and no other one is under way."""
        while self.call is None and not self.outbox and not self.last and (found := head_of(self.inbox)):
            first, lines, begin = found
            words = first.split(b" ")
            if len(words) != 3 or value_of(lines, b"transfer-encoding") is not None:
                return self.answer(400, b"the gateway takes requests with Content-Length only")
            method, path, version = words
            try:
                end = begin + (length_of(lines) or 0)
            except ValueError:
                return self.answer(400, b"Content-Length is not a number")
            if len(self.inbox) < end:
                return None
            body = bytes(self.inbox[begin:end])
            del self.inbox[:end]
            asked = value_of(lines, b"connection") or b""
            self.last = b"close" in asked or version == b"HTTP/1.0" and b"keep-alive" not in asked
            route = self.gateway.route(path.decode("latin-1"))
            if route is None:
                self.answer(404, b"no route of the gateway begins like this path", self.last)
                continue
            kept = b"".join(line + b"\r\n" for key, line in lines if key not in HOP)
            self.call = Call(self, route, method, path, kept, body)
            self.call.connect()
        if len(self.inbox) > LONGEST_HEAD and head_of(self.inbox) is None:
            self.answer(400, b"the head of the request is too long")
        return None

    def answer(self, status: int, text: bytes, last: bool = True) -> None:
        """Send an answer of the gateway's own."""
        said = {400: b"400 Bad Request", 404: b"404 Not Found", 502: b"502 Bad Gateway"}[status]
        body = b"gateway: " + text + b"\n"
        self.last = last
        self.send(b"HTTP/1.1 %b\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n" % (said, len(body)), body)

    def send(self, head: bytes, body: bytes) -> None:
        """Send an answer. ``head``: its lines, without the empty one at the end."""
        self.call = None
        self.outbox = b"".join((head, b"Connection: close\r\n" if self.last else b"", b"\r\n", body))
        try:
            self.flush()
        except BlockingIOError:
            self.gateway.epoll.modify(self.sock.fileno(), READ | WRITE)
        except OSError:
            self.close()

    def flush(self) -> None:
        """Send as much of the answer as possible.

        Raises BlockingIOError if some of it is left, and ConnectionResetError after the last answer.
        """
        while self.outbox:
            self.outbox = self.outbox[self.sock.send(self.outbox) :]
        if self.last:
            raise ConnectionResetError("the client asked for no further answer")

    def close(self) -> None:
        """Close the connection, and the one to the service, because its answer is not needed."""
        self.last = True
        if self.call is not None:
            self.call.close()
            self.call = None
        self.gateway.forget(self.sock)


class Call:
    """One request to a service, on a connection of its own."""

    def __init__(self, client: Client, route: Route, method: bytes, path: bytes, headers: bytes, body: bytes) -> None:
        self.client, self.route, self.method, self.path = client, route, method, path
        self.headers, self.body = headers, body
        self.left = route.next()
        self.outbox, self.inbox, self.sent = b"", bytearray(), False

    def connect(self) -> None:
        """Begin to connect to the next address."""
        host, port, prefix = self.left.pop(0)
        path = prefix + self.path[len(self.route.prefix.encode()) :] if prefix else self.path
        self.outbox = b"%b %b HTTP/1.0\r\nHost: %b:%d\r\nConnection: close\r\n%b\r\n%b" % (
            *(self.method, path, host.encode(), port, self.headers, self.body),
        )
        self.sock = socket.socket()
        self.sock.setblocking(False)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client.gateway.watch(self.sock, self, WRITE)
        if self.sock.connect_ex((host, port)) not in (0, errno.EINPROGRESS):
            self.refused()

    def ready(self, events: int) -> None:
        """Send what is left of the request, then read the answer."""
        try:
            if self.outbox:
                if not self.sent and self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    return self.refused()
                self.outbox = self.outbox[self.sock.send(self.outbox) :]
                self.sent = True
                if not self.outbox:
                    self.client.gateway.epoll.modify(self.sock.fileno(), READ)
                return None
            data = self.sock.recv(PIECE)
            self.inbox += data
            self.read(not data)
        except BlockingIOError:
            return None
        except OSError:
            self.broken()
        return None

    def read(self, ended: bool) -> None:
        """Pass the answer on if it is complete. ``ended``: the service has closed the connection."""
        found = head_of(self.inbox)
        if len(self.inbox) > LONGEST or found is None and ended:
            return self.broken()
        if found is None:
            return None
        first, lines, begin = found
        try:
            length = 0 if self.method == b"HEAD" else length_of(lines)
        except ValueError:
            return self.broken()
        whole = length is not None and len(self.inbox) >= begin + length
        if not whole and not ended:
            return None
        if not first.startswith(b"HTTP/1.") or not whole and length is not None:
            return self.broken()
        body = bytes(self.inbox[begin:] if length is None else self.inbox[begin : begin + length])
        kept = [line for key, line in lines if key not in HOP]
        if length is None and value_of(lines, b"transfer-encoding") is None:
            kept.append(b"Content-Length: %d" % len(body))
        self.close()
        self.client.send(b"\r\n".join((b"HTTP/1.1" + first[8:], *kept, b"")), body)
        return self.client.advance()

    def refused(self) -> None:
        """Try the next address."""
        self.close()
        if self.left:
            return self.connect()
        return self.fail(b"the service refuses the connection")

    def broken(self) -> None:
        """Answer 502, because the service has closed the connection."""
        self.close()
        self.fail(b"the service closed the connection before its answer was complete")

    def fail(self, text: bytes) -> None:
        """Answer 502."""
        self.client.answer(502, text, self.client.last)
        self.client.advance()

    def close(self) -> None:
        """Close the connection."""
        self.client.gateway.forget(self.sock)


def main() -> None:
    """Listen and serve."""
    address, port, *given = sys.argv[1:]
    routes: dict[str, Route] = {}
    for prefix, _, url in (word.partition("=") for word in given):
        routes.setdefault(prefix, Route(prefix)).add(url)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, int(port)))
    listener.listen(BACKLOG)
    listener.setblocking(False)
    Gateway(listener, routes.values()).run()


main()
