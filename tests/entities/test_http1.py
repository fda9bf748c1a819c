"""HTTP/1.1: what a connection makes of bytes, in whatever pieces they come."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharedstate_lite.entities.http1 import LONGEST, HttpConnection, answer

DONE = answer(200, {})


class Wire(asyncio.Transport):
    """Takes the place of a socket."""

    def __init__(self) -> None:
        super().__init__()
        self.sent, self.closed, self.reading = b"", False, True

    def write(self, data: Any) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class Server:
    """A connection whose requests are answered at once, or if ``later`` by `turn`."""

    def __init__(self, later: bool = False) -> None:
        self.later, self.asked, self.open = later, list[tuple[bytes, bytes, str]](), 0
        self.wire, self.connection = Wire(), HttpConnection(self.handle)
        self.connection.connection_made(self.wire)

    def handle(self, connection: HttpConnection, method: bytes, path: bytes, key: str) -> None:
        """Note the request."""
        self.asked.append((method, path, key))
        self.open += 1
        if not self.later:
            self.turn()

    def turn(self) -> None:
        """Answer the request under way."""
        self.open -= 1
        self.connection.answer(DONE)


def request(path: str, *fields: str, method: str = "POST", body: str = "") -> bytes:
    """A request as bytes."""
    length = [f"Content-Length: {len(body)}"] if body or method == "POST" else []
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *fields, *length, "", body]).encode()


THREE = request("/a", "Idempotency-Key:  k1 ") + request("/b?x=1", body="GET / HTTP/1.1\r\n\r\n") + request("/c")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, len(THREE)), max_size=6), st.booleans())
def test_pipelined_requests_in_pieces(cuts: list[int], later: bool) -> None:
    """One is under way at a time; bodies are read past; each is answered once, in order."""
    server = Server(later)
    edges = [0, *sorted(cuts), len(THREE)]
    for start, end in zip(edges, edges[1:], strict=False):
        server.connection.data_received(THREE[start:end])
        assert server.open <= 1
    while server.open:
        server.turn()
    assert server.asked == [(b"POST", b"/a", "k1"), (b"POST", b"/b?x=1", ""), (b"POST", b"/c", "")]
    assert server.wire.sent == DONE * 3 and not server.wire.closed


@pytest.mark.parametrize(
    "last",
    [
        request("/a", "connection: Close"),
        request("/a", "Transfer-Encoding: chunked") + b"5\r\nPOST \r\n0\r\n\r\n",
        request("/a").replace(b"HTTP/1.1", b"HTTP/1.0"),
    ],
    ids=["close", "chunked", "1.0"],
)
def test_the_last_request_of_a_connection(last: bytes) -> None:
    """It is answered, then the connection is closed, and what follows is no request."""
    server = Server()
    server.connection.data_received(last + request("/b"))
    assert len(server.asked) == 1 and server.wire.sent == DONE and server.wire.closed


def test_what_is_no_request() -> None:
    """400, and the connection is closed."""
    server = Server()
    server.connection.data_received(b"hello\r\n\r\n" + request("/a"))
    assert server.asked == [] and server.wire.sent.startswith(b"HTTP/1.1 400 Bad Request\r\n") and server.wire.closed


@pytest.mark.parametrize(
    "long", [b"GET /" + b"a" * LONGEST, request("/a", "Content-Length: 99999999")], ids=["head", "body"]
)
def test_a_request_that_is_too_long(long: bytes) -> None:
    """Its connection is closed without an answer."""
    server = Server()
    server.connection.data_received(long)
    assert server.asked == [] and server.wire.sent == b"" and server.wire.closed


def test_a_client_that_sends_more_than_it_reads() -> None:
    """Reading stops while too much waits, or while the answers are not taken; then everything is answered."""
    server, many = Server(later=True), LONGEST // len(request("/a")) + 2
    server.connection.data_received(request("/a") * many)
    assert not server.wire.reading and server.open == 1
    server.connection.pause_writing()
    server.turn()
    assert server.open == 0
    server.connection.resume_writing()
    while server.open:
        server.turn()
    assert server.wire.sent == DONE * many and server.wire.reading


def test_a_client_that_is_gone() -> None:
    """An answer to it is dropped. One that has only ended its sending gets the answer under way."""
    server = Server(later=True)
    server.connection.data_received(request("/a"))
    assert server.connection.eof_received() is True
    server.turn()
    assert server.wire.sent == DONE and server.wire.closed
    server = Server(later=True)
    assert server.connection.eof_received() is False
    server.connection.data_received(request("/a"))
    server.connection.connection_lost(None)
    server.turn()
    assert server.wire.sent == b""
