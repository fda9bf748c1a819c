"""A small HTTP/1.1 server protocol for asyncio. It supports keep-alive and pipelining, and ignores request bodies.

A connection handles one request at a time, so it sends the answers in the order of the requests.

>>> answer(200, {"stock": 3})
b'HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: 12\\r\\n\\r\\n{"stock": 3}'

Source: RFC 9112; Idempotency-Key as in draft-ietf-httpapi-idempotency-key-header.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from functools import lru_cache
from http import HTTPStatus
from typing import Any

LONGEST = 1 << 16
"""The maximum size of a request in bytes. A longer request closes its connection."""
_LENGTH = re.compile(rb"^content-length:[ \t]*(\d+)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_KEY = re.compile(rb"^idempotency-key:[ \t]*(.*?)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_CLOSE = re.compile(rb"^connection:[ \t]*close|^transfer-encoding:", re.IGNORECASE | re.MULTILINE)
_encode = json.JSONEncoder(default=lambda reference: reference.key, check_circular=False).encode
_HEAD = "HTTP/1.1 {} {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}"


def answer(status: int, value: Any) -> bytes:
    """Return an answer with a JSON body. A reference in ``value`` is replaced by its key."""
    body = _encode(value)
    return _HEAD.format(status, HTTPStatus(status).phrase, len(body), body).encode("ascii")


@lru_cache(256)
def _fields(head: bytes) -> tuple[int, bool, str]:
    """Return the length of the body, whether to close the connection, and the Idempotency-Key.

    Clients repeat the same header fields in every request, so the result is cached.
    """
    length, key = _LENGTH.search(head), _KEY.search(head)
    return int(length[1]) if length else 0, bool(_CLOSE.search(head)), key[1].decode("latin-1") if key else ""


class HttpConnection(asyncio.Protocol):
    """One connection. Calls ``handle(connection, method, path, key)`` for each request, which must call `answer`."""

    def __init__(self, handle: Callable[[HttpConnection, bytes, bytes, str], None]) -> None:
        self.handle = handle
        self.transport: asyncio.Transport | None = None
        self.buffer = b""
        self._busy = self._inside = self._last = self._full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        """Called by asyncio. Later answers are dropped."""
        self.transport = None

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self.buffer += data
        if len(self.buffer) > LONGEST and self.transport:
            self.transport.pause_reading()
        self._go_on()

    def eof_received(self) -> bool:
        """Called by asyncio when the client stops sending. It still receives the answer to the current request."""
        self._last = True
        return self._busy

    def pause_writing(self) -> None:
        """Called by asyncio when the client does not read its answers. Its next requests wait."""
        self._full = True

    def resume_writing(self) -> None:
        """Called by asyncio."""
        self._full = False
        self._go_on()

    def _go_on(self) -> None:
        """Handle buffered requests until one is incomplete or is not answered immediately."""
        self._inside = True
        while self.buffer and self.transport is not None and not (self._busy or self._full):
            end = self.buffer.find(b"\r\n\r\n")
            first, _, rest = self.buffer[: max(end, 0)].partition(b"\r\n")
            length, last, key = _fields(rest)
            size = end + 4 + length
            if end < 0 or len(self.buffer) < size:
                if max(size, len(self.buffer)) > LONGEST:
                    self.transport.close()
                break
            words = first.split(b" ")
            self._busy, self._last = True, last or self._last or words[-1] != b"HTTP/1.1"
            self.buffer = b"" if len(self.buffer) == size else self.buffer[size:]
            if len(words) == 3:
                self.handle(self, words[0], words[1], key)
            else:
                self._last = True
                self.answer(answer(400, {"error": "this is not an HTTP request"}))
        self._inside = False
        if self.transport is not None and len(self.buffer) <= LONGEST:
            self.transport.resume_reading()

    def answer(self, raw: bytes) -> None:
        """Answer the current request."""
        self._busy = False
        if self.transport is None:
            return
        self.transport.write(raw)
        if self._last:
            self.transport.close()
            self.transport = None
        elif self.buffer and not self._inside:
            self._go_on()
