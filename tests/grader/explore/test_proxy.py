"""Through the proxy, a caller gets byte for byte what it gets without it, with messages held and without."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_grader_wire import Server
from test_odd_answers import AGAIN, ANSWERS, CLOSE, Script, scripted

from grader.explore.proxies import Proxies
from grader.explore.proxy import ROOM, Event
from grader.wire.child import free_ports

Ask = Callable[[socket.socket], Any]
"""Talks over a connection, and returns what it has seen."""
Serve = Callable[[socket.socket, int], None]
GET = b"GET /find/7 HTTP/1.1\r\nHost: h\r\n\r\n"
POST = b"POST /add/7/2 HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
SECONDS = 20.0
"""The longest that anything here may take on a busy machine. A test that waits for it fails."""


@pytest.fixture
def proxies() -> Iterator[Proxies]:
    """A proxy that holds messages for a minute, so that no message of a test is overdue."""
    with Proxies(hold=60.0, late=60.0) as started:
        yield started


def route(proxies: Proxies, port: int) -> int:
    """Open a route from `order` to `stock`, which listens on a port. Returns the port for the caller."""
    (at,) = free_ports(1)
    proxies.between("order", "stock", [("127.0.0.1", at)], ("127.0.0.1", port))
    return at


@contextlib.contextmanager
def called(port: int) -> Iterator[socket.socket]:
    """A connection of a caller."""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as sock:
        yield sock


def everything(sock: socket.socket, most: int = 1 << 30, quiet: float = SECONDS) -> tuple[bytes, str]:
    """All that a caller gets, at most some bytes, and how it ends. ``quiet``: seconds without a byte that end it."""
    data = bytearray()
    sock.settimeout(quiet)
    while len(data) < most:
        try:
            piece = sock.recv(min(65_536, most - len(data)))
        except TimeoutError:
            return bytes(data), "open"
        except ConnectionResetError:
            return bytes(data), "reset"
        if not piece:
            return bytes(data), "end"
        data += piece
    return bytes(data), "enough"


class Releasing:
    """Releases each message as soon as it is held, in a thread, and keeps the events."""

    def __init__(self, proxies: Proxies) -> None:
        self.events: list[Event] = []
        self._proxies, self._done = proxies, False
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._done:
            for event in self._proxies.events(0.01):
                self.events.append(event)
                if event.what == "arrived":
                    with contextlib.suppress(LookupError):  # its connection has broken in the meantime
                        self._proxies.release(event.message)

    def __enter__(self) -> Releasing:
        self._proxies.hold()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done = True
        self._thread.join()


def three_ways(proxies: Proxies, serve: Serve, ask: Ask) -> list[Any]:
    """What a caller sees: without the proxy, with nothing held, with each message held and released."""
    server = Server(serve)
    seen = []
    try:
        with called(server.target.port) as sock:
            seen.append(ask(sock))
        port = route(proxies, server.target.port)
        proxies.pass_on()
        with called(port) as sock:
            seen.append(ask(sock))
        with Releasing(proxies), called(port) as sock:
            seen.append(ask(sock))
    finally:
        server.sock.close()
    return seen


@pytest.mark.parametrize("name", ANSWERS)
def test_an_odd_answer_stays_as_it_is(name: str) -> None:
    """Each answer of the table reaches its caller byte for byte, and ends as it ends without the proxy.

    What is no whole message cannot be released, so it is held for as long as messages are held.
    """
    script, _ = ANSWERS[name]
    endless, whole = AGAIN in script, sum(len(step) for step in script if step not in (AGAIN, CLOSE))
    most = 6 << 20 if endless else whole if CLOSE not in script else 1 << 30

    def ask(sock: socket.socket) -> tuple[bytes, str]:
        sock.sendall(GET)
        return everything(sock, most)

    with Proxies(hold=0.2) as proxies:
        direct, *through = three_ways(proxies, scripted(script), ask)
    assert through == [direct, direct]
    assert len(direct[0]) == (most if endless else whole)
