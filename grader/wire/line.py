"""One connection of the generator: a non-blocking socket and the request on it.

A line carries one request at a time. If an idle line becomes readable, the other side has either closed it or sent
unexpected bytes.
"""

from __future__ import annotations

import errno
import select
import socket

from .http import LONGEST_BODY, LONGEST_HEAD, Answer, Malformed, read_answer
from .jobs import Target

IDLE = -1
_PENDING = (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EAGAIN, errno.EALREADY)


class Refused(OSError):
    """The connection was refused, and no byte was written."""


class Line:
    """A connection to one target. ``fd`` is -1 after the connection is closed."""

    __slots__ = (
        "at",
        "connecting",
        "fd",
        "parts",
        "recv",
        "request",
        "send",
        "served",
        "size",
        "sock",
        "target",
        "where",
    )

    def __init__(self, target: int, where: Target) -> None:
        """Start connecting. Raises Refused if the connection is refused, and OSError if connecting fails otherwise."""
        family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
        self.sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        self.target, self.where, self.request = target, where, IDLE
        self.parts: list[bytes] = []
        self.size = self.served = self.at = 0
        try:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            code = self.sock.connect_ex((where.host, where.port))
            if code == errno.ECONNREFUSED:
                raise Refused(code, "refused")
            if code and code not in _PENDING:
                raise OSError(code, "cannot connect")
        except OSError:
            self.sock.close()
            raise
        self.connecting = code != 0
        self.fd = self.sock.fileno()
        self.send, self.recv = self.sock.send, self.sock.recv

    def connected(self) -> None:
        """Complete the connection once the socket is writable. Raises Refused or OSError if connecting failed."""
        code = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code == errno.ECONNREFUSED:
            raise Refused(code, "refused")
        if code:
            raise OSError(code, "cannot connect")
        self.connecting = False

    def closes_always(self, now: int) -> bool:
        """Return whether the server closed the line right after its first answer, and so closes every line."""
        return self.served == 1 and now - self.at < 100_000_000

    def more(self, data: bytes) -> Answer | None:
        """Add received bytes. Returns the answer once it is complete. b"" means that the other side closed the line.

        Raises Malformed, and ConnectionResetError if the answer can no longer be completed.
        """
        if data:
            self.parts.append(data)
            self.size += len(data)
            if self.size > LONGEST_HEAD + LONGEST_BODY:
                raise Malformed("the answer is too long")
        whole = b"".join(self.parts)
        self.parts = [whole]
        if not data and not whole:
            raise ConnectionResetError("closed before an answer")
        answer = read_answer(whole, closed=not data)
        if answer is None and not data:
            raise ConnectionResetError("closed within an answer")
        return answer

    def ready(self) -> None:
        """Make the line idle after its answer."""
        self.served += 1
        self.request = IDLE
        if self.parts:
            self.parts, self.size = [], 0

    def watch(self, epoll: select.epoll) -> None:
        """Register the line with epoll."""
        epoll.register(self.fd, select.EPOLLOUT if self.connecting else select.EPOLLIN)

    def close(self) -> None:
        """Close the line. epoll removes a closed descriptor automatically."""
        if self.fd >= 0:
            self.fd = -1
            self.sock.close()


__all__ = ["IDLE", "Answer", "Line", "Malformed", "Refused"]
