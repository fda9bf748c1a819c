"""Through the proxy, a caller gets byte for byte what it gets without it, with messages held and without."""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fake_system import over_sockets
from test_grader_wire import Server, job
from test_odd_answers import AGAIN, ANSWERS, CLOSE, SYSTEMS, scripted

from grader.errors import VoidError
from grader.explore.connection import ROOM, Event
from grader.explore.cutter import ANSWER, BURST, REQUEST
from grader.explore.proxies import HOLD, LATE, Proxies
from grader.verdict import judge
from grader.wire.client import Generator
from grader.wire.jobs import Target
from grader.wire.network import free_ports

Ask = Callable[[socket.socket], Any]
"""Talks over a connection, and returns what it has seen."""
Serve = Callable[[socket.socket, int], None]
GET = b"GET /find/7 HTTP/1.1\r\nHost: h\r\n\r\n"
POST = b"POST /add/7/2 HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\n\r\n"
ODD_CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\n{}\r\n0\r\nA: b\r\n\r\n"
SECONDS = 20.0
"""The longest that anything here may take on a busy machine. A test that waits for it fails."""


@pytest.fixture
def proxies() -> Iterator[Proxies]:
    """A proxy that holds messages for a minute, so that no message of a test is overdue."""
    with Proxies(hold=60.0, late=60.0) as started:
        yield started


@pytest.fixture(scope="module")
def brief() -> Iterator[Proxies]:
    """A proxy that holds nothing for long: it must survive each odd answer."""
    with Proxies(hold=0.2) as started:
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
        self.events += self._proxies.events(0.0)


def three_ways(proxies: Proxies, serve: Serve, ask: Ask) -> tuple[list[Any], list[Event]]:
    """What a caller sees: without the proxy, with nothing held, with each message held and released; and the events."""
    server = Server(serve)
    seen = []
    try:
        with called(server.target.port) as sock:
            seen.append(ask(sock))
        port = route(proxies, server.target.port)
        proxies.pass_on()
        with called(port) as sock:
            seen.append(ask(sock))
        proxies.events(0.0)
        with Releasing(proxies) as releasing, called(port) as sock:
            seen.append(ask(sock))
    finally:
        server.sock.close()
    return seen, releasing.events


@pytest.mark.parametrize("name", ANSWERS)
def test_an_odd_answer_stays_as_it_is(name: str, brief: Proxies) -> None:
    """Each answer of the table reaches its caller byte for byte, and ends as it ends without the proxy.

    What is no whole message cannot be released, so it is held for as long as messages are held.
    """
    script, _ = ANSWERS[name]
    endless, whole = AGAIN in script, sum(len(step) for step in script if step not in (AGAIN, CLOSE))
    most = 2 << 20 if endless else whole if CLOSE not in script else 1 << 30

    def ask(sock: socket.socket) -> tuple[bytes, str]:
        sock.sendall(GET)
        return everything(sock, most)

    (direct, *through), _ = three_ways(brief, scripted(script), ask)
    assert through == [direct, direct]
    assert len(direct[0]) == (most if endless else whole)


def reads(sock: socket.socket, count: int) -> bytes:
    """Exactly so many bytes."""
    data, end = everything(sock, count)
    assert end == "enough", (data[-100:], end)
    return data


def answers(sock: socket.socket, number: int) -> None:
    """A server that answers each request without a body, also several at once; the answer to HEAD has none."""
    heard = b""
    while data := sock.recv(65_536):
        *requests, heard = (heard + data).split(b"\r\n\r\n")
        for request in requests:
            sock.sendall(OK[:-2] if request.startswith(b"HEAD") else OK)


def echoes(sock: socket.socket, number: int) -> None:
    """A server that speaks another protocol: it sends back what it gets, and its end after that of the caller."""
    while data := sock.recv(65_536):
        sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)


def switches(sock: socket.socket, number: int) -> None:
    """A server that answers 101 and then sends back what it gets."""
    assert reads(sock, len(GET)) == GET
    sock.sendall(SWITCHED)
    echoes(sock, number)


def counts(sock: socket.socket, number: int) -> None:
    """A server that reads up to the caller's end, and then says how much that was."""
    data, end = everything(sock)
    sock.sendall(b"HTTP/1.0 200 OK\r\n\r\n%d %s" % (len(data), end.encode()))


def takes_a_megabyte(sock: socket.socket, number: int) -> None:
    """A server that reads a request of a megabyte, and answers with its body in chunks."""
    head = b"POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n"
    body = reads(sock, len(head) + 1_000_000)[len(head) :]
    sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nf4240\r\n%b\r\n0\r\n\r\n" % body)


def hangs_up(sock: socket.socket, number: int) -> None:
    """A server that answers after the first byte and closes without reading the rest, which resets the connection."""
    sock.recv(1)
    sock.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")


def head(sock: socket.socket) -> bytes:
    """HEAD, then GET."""
    sock.sendall(GET.replace(b"GET", b"HEAD"))
    first = reads(sock, len(OK) - 2)
    sock.sendall(GET)
    return first + reads(sock, len(OK))


def pipelined(sock: socket.socket) -> bytes:
    """Five requests at once, then their answers."""
    sock.sendall((GET + GET.replace(b"GET", b"HEAD")) * 2 + GET)
    return reads(sock, 5 * len(OK) - 4)


def kept_alive(sock: socket.socket) -> bytes:
    """Ten requests one after the other."""
    data = b""
    for _ in range(10):
        sock.sendall(POST)
        data += reads(sock, len(OK))
    return data


def half_closed(sock: socket.socket) -> Any:
    """A request whose end is the end of the caller, sent in 4 pieces."""
    for piece in (b"GET /", b"x HTTP/1.1\r\n", b"Content-Length: 100\r\n\r\n", b"abc"):
        sock.sendall(piece)
    sock.shutdown(socket.SHUT_WR)
    return everything(sock)


def upgraded(sock: socket.socket) -> Any:
    """A request, and after 101 another protocol in both directions."""
    sock.sendall(GET)
    data = reads(sock, len(SWITCHED))
    for n in range(5):
        sock.sendall(b"%d" % n * 1_000)
        data += reads(sock, 1_000)
    sock.shutdown(socket.SHUT_WR)
    return data, everything(sock)


def another_protocol(sock: socket.socket) -> Any:
    """A megabyte of bytes that are not HTTP, then the end."""
    data = bytes(range(256)) * 4_096
    writer = threading.Thread(target=sock.sendall, args=(data,))
    writer.start()
    back = reads(sock, len(data))
    writer.join()
    sock.shutdown(socket.SHUT_WR)
    return back == data, everything(sock)


def a_megabyte(sock: socket.socket) -> Any:
    """A megabyte each way."""
    sock.sendall(b"POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n" + b"0123456789" * 100_000)
    return reads(sock, 47 + 7 + 1_000_000 + 7)


def refused_body(sock: socket.socket) -> Any:
    """A request with a body that is not read."""
    sock.sendall(b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc")
    return everything(sock)


def silent(sock: socket.socket) -> Any:
    """A caller that says nothing and closes its half."""
    sock.shutdown(socket.SHUT_WR)
    return everything(sock)


TALKS: dict[str, tuple[Serve, Ask, int, int]] = {
    # A server, a caller, and how many requests and answers are messages.
    "HEAD": (answers, head, 2, 2),
    "requests that do not wait": (answers, pipelined, 5, 5),
    "one request after the other": (answers, kept_alive, 10, 10),
    "101": (switches, upgraded, 1, 1),
    "another protocol": (echoes, another_protocol, 0, 0),
    "a megabyte each way": (takes_a_megabyte, a_megabyte, 1, 1),
    "a half-closed connection": (counts, half_closed, 0, 1),
    "an answer before the request was read": (hangs_up, refused_body, 1, 1),
    "a caller that says nothing": (counts, silent, 0, 1),
}


@pytest.mark.parametrize("name", TALKS)
def test_a_talk_stays_as_it_is(name: str, proxies: Proxies) -> None:
    """Both ends see the same bytes and ends: without the proxy, with nothing held, and with everything held."""
    serve, ask, *messages = TALKS[name]
    (direct, *through), events = three_ways(proxies, serve, ask)
    assert through == [direct, direct]
    held = [event for event in events if event.what == "arrived"]
    assert [sum(event.kind == kind for event in held) for kind in (REQUEST, ANSWER)] == messages
    assert {event.message for event in held} == {event.message for event in events if event.what == "delivered"}
    assert all((event.sender, event.receiver) == ("stock", "order") for event in held if event.kind == ANSWER)
    assert proxies.overdue == 0


def test_a_caller_is_refused_exactly_while_its_callee_does_not_listen(proxies: Proxies) -> None:
    """The route listens when the callee does, at all of its addresses, and refuses before and after."""
    real, one, two = free_ports(3)
    proxies.between("order", "stock", [("127.0.0.1", one), ("127.0.0.9", two)], ("127.0.0.1", real))
    places = ("127.0.0.1", one), ("127.0.0.9", two)

    def refused() -> list[bool]:
        found = []
        for place in places:
            try:
                socket.create_connection(place, timeout=SECONDS).close()
                found.append(False)
            except ConnectionRefusedError:
                found.append(True)
        return found

    for _ in range(3):
        assert refused() == [True, True]
        with socket.create_server(("127.0.0.1", real)) as server:
            proxies.look()
            assert refused() == [False, False]
            for _ in places:
                server.accept()[0].close()
        proxies.look()
    assert refused() == [True, True]
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(places[0])
    with socket.create_server(("", real)):  # at every address
        proxies.look()
        assert refused() == [False, False]
    with pytest.raises(OSError, match="in use"):
        proxies.between("payment", "stock", [("127.0.0.1", one)], ("127.0.0.1", real))


def test_a_route_opens_by_itself_and_a_callee_that_has_just_stopped_resets(proxies: Proxies) -> None:
    """Nothing says when a process begins to listen. Between its end and the next look, its callers are reset."""
    (real,) = free_ports(1)
    port = route(proxies, real)
    with socket.create_server(("127.0.0.1", real)) as server:
        until = time.monotonic() + SECONDS
        while True:
            try:
                sock = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
                break
            except ConnectionRefusedError:
                assert time.monotonic() < until
        with sock:
            server.accept()[0].close()
            assert everything(sock) == (b"", "end")
    with called_or_refused(port) as ends:
        assert ends in ("reset", "refused")


@contextlib.contextmanager
def called_or_refused(port: int) -> Iterator[str]:
    """How a call ends whose callee has stopped a moment ago."""
    try:
        with called(port) as sock:
            yield everything(sock)[1]
    except ConnectionRefusedError:
        yield "refused"
    except ConnectionResetError:
        yield "reset"


def held(proxies: Proxies, first: str) -> Event:
    """Wait until a message with this first line is held."""
    return proxies.until(lambda event: event.what == "arrived" and event.first == first, SECONDS)[-1]


GOT, ANSWERED = "GET /find/7 HTTP/1.1", "HTTP/1.1 200 OK"
POSTED = "POST /add/7/2 HTTP/1.1"


@pytest.fixture(scope="module")
def generator() -> Iterator[Generator]:
    """The grader's generator."""
    child = Generator()
    yield child
    child.close()


ODD = ["right", "value: a float", "id: letters of other scripts", "body: nothing"]


@pytest.mark.parametrize("name", ODD)
def test_a_system_is_graded_the_same_through_the_proxy(name: str, proxies: Proxies, generator: Generator) -> None:
    """The contract phase has the same answers and the same verdict, for right and for wrong systems."""
    make, fits = SYSTEMS[name]
    found = []
    for through in (False, True):
        server = Server(make().serve)
        port = route(proxies, server.target.port) if through else server.target.port
        record = over_sockets(generator, port)
        server.sock.close()
        found.append((record.exchanges, judge(record).verdict))
    assert found[0] == found[1]
    assert found[0][1] == ("pass" if fits else "fail")


def test_a_load_passes_without_reports(proxies: Proxies, generator: Generator) -> None:
    """Thousands of requests over many connections are answered, and nothing has to be read of the proxy meanwhile."""
    server = Server(answers)
    port = route(proxies, server.target.port)
    proxies.pass_on(report=False)
    result = generator.run(job(Target("127.0.0.1", port), 3_000, connections=50))
    server.sock.close()
    assert result.status.tolist() == [200] * 3_000
    assert proxies.events(0.0) == []


def test_reports_that_are_not_read_keep_nothing_up(proxies: Proxies, generator: Generator) -> None:
    """While a run passes with reports, the grader can do other work: each message is reported afterwards."""
    server = Server(answers)
    port = route(proxies, server.target.port)
    result = generator.run(job(Target("127.0.0.1", port), 3_000, connections=50))
    server.sock.close()
    assert result.status.tolist() == [200] * 3_000
    passed = [event for event in proxies.until(lambda event: event.message == 6_000, SECONDS) if event.what == "passed"]
    assert sorted(event.message for event in passed) == list(range(1, 6_001))
    assert Counter(event.kind for event in passed) == {REQUEST: 3_000, ANSWER: 3_000}


def test_the_times_are_those_of_the_assignment() -> None:
    """The page of the assignment promises for how long a message is held, and how late a request arrives."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "assignment.md").read_text(encoding="utf-8")
    section = " ".join(page.partition("## What can happen between your processes")[2].partition("\n## ")[0].split())
    assert f"may arrive up to {LATE:.0f} s later" in section
    assert f"can be delayed** by up to {HOLD:.0f} s" in section


HEAD_ENDS = b"\r\n\r\n"


class Heard:
    """A server that keeps what it hears, and answers each request."""

    def __init__(self, proxies: Proxies) -> None:
        self.requests: list[bytes] = []
        self.ends: list[str] = []
        self.changed = threading.Condition()
        self.server = Server(self.serve)
        self.port = route(proxies, self.server.target.port)

    def serve(self, sock: socket.socket, number: int) -> None:
        """Answer each request of a connection, and keep how it ends."""
        end, heard = "end", b""
        try:
            while data := sock.recv(65_536):
                heard += data
                # The requests of these tests have no bodies. Two of them can arrive together, or one in two parts.
                *whole, heard = heard.split(HEAD_ENDS)
                for request in whole:
                    with self.changed:
                        self.requests.append(request + HEAD_ENDS)
                        self.changed.notify_all()
                    sock.sendall(OK)
        except ConnectionResetError:
            end = "reset"
        with self.changed:
            self.ends.append(end)
            self.changed.notify_all()

    def wait(self, requests: int, ends: int) -> None:
        """Wait until so many requests were heard, and so many connections have ended."""
        with self.changed:
            reached = self.changed.wait_for(lambda: (len(self.requests), len(self.ends)) == (requests, ends), SECONDS)
            assert reached, (self.requests, self.ends)


@pytest.fixture
def heard(proxies: Proxies) -> Iterator[Heard]:
    """A server behind a route of the proxy, which holds everything."""
    server = Heard(proxies)
    proxies.hold()
    yield server
    server.server.sock.close()


def test_a_lost_request_has_not_arrived(proxies: Proxies, heard: Heard) -> None:
    """The connection is reset for both ends, and the callee has heard nothing."""
    with called(heard.port) as sock:
        sock.sendall(POST)
        proxies.lose(held(proxies, POSTED).message)
        assert everything(sock) == (b"", "reset")
    heard.wait(0, 1)
    assert heard.ends == ["reset"]
    events = proxies.until(lambda event: event.what == "closed", SECONDS)
    assert [event.what for event in events] == ["dropped", "closed"]


def test_a_lost_answer_belongs_to_a_request_that_has_arrived(proxies: Proxies, heard: Heard) -> None:
    """The callee has heard the request, and the caller gets nothing of the answer."""
    with called(heard.port) as sock:
        sock.sendall(POST)
        proxies.release(held(proxies, POSTED).message)
        proxies.lose(held(proxies, ANSWERED).message)
        assert everything(sock) == (b"", "reset")
    heard.wait(1, 1)


@pytest.mark.parametrize("lost", [POSTED, ANSWERED])
def test_silence_lasts_until_the_caller_gives_up(proxies: Proxies, heard: Heard, lost: str) -> None:
    """Nothing comes, in either direction; the callee notices when the caller closes, and not before."""
    with called(heard.port) as sock:
        sock.sendall(POST)
        if lost == ANSWERED:
            proxies.release(held(proxies, POSTED).message)
        proxies.silence(held(proxies, lost).message)
        sock.sendall(POST)
        proxies.pass_on()
        assert everything(sock, quiet=0.05) == (b"", "open")
        assert heard.ends == []
    heard.wait(int(lost == ANSWERED), 1)
    assert heard.ends == ["reset"]


def test_a_delayed_request_arrives_when_its_caller_has_given_up(proxies: Proxies, heard: Heard) -> None:
    """The caller is reset at once. The request arrives at the command, and its answer reaches no caller."""
    with called(heard.port) as sock:
        sock.sendall(POST)
        message = held(proxies, POSTED).message
        proxies.delay(message)
        assert everything(sock) == (b"", "reset")
    heard.wait(0, 0)
    proxies.arrive(message)
    heard.wait(1, 1)
    events = proxies.until(lambda event: event.what == "closed", SECONDS)
    assert [(event.what, event.first) for event in events] == [
        ("kept", POSTED),
        ("late", POSTED),
        ("arrived", ANSWERED),
        ("dropped", ANSWERED),
        ("closed", ""),
    ]
    with pytest.raises(LookupError, match="not kept"):
        proxies.arrive(message)


def test_a_repeated_request_arrives_twice(proxies: Proxies, heard: Heard) -> None:
    """A delayed request can arrive before or behind the one that repeats it, on its own connection."""
    with called(heard.port) as sock:
        sock.sendall(POST)
        first = held(proxies, POSTED).message
        proxies.delay(first)
        assert everything(sock) == (b"", "reset")
    with called(heard.port) as sock:
        sock.sendall(GET)
        proxies.release(held(proxies, GOT).message)
        proxies.release(held(proxies, ANSWERED).message)
        assert reads(sock, len(OK)) == OK
        heard.wait(1, 0)
        sock.sendall(POST)
        proxies.release(held(proxies, POSTED).message)
        proxies.arrive(first)
        heard.wait(3, 1)
        proxies.pass_on()
        assert reads(sock, len(OK)) == OK
    assert heard.requests == [GET, POST, POST]


def test_nothing_is_held_for_longer_than_it_may_be() -> None:
    """After ``hold`` seconds a message is delivered and counted, and after ``late`` seconds a request arrives."""
    with Proxies(hold=0.05, late=0.1) as proxies, contextlib.closing(Server(answers).sock) as server:
        port = route(proxies, server.getsockname()[1])
        proxies.hold()
        with called(port) as sock:
            sock.sendall(GET + POST[:30])
            assert reads(sock, len(OK)) == OK
            sock.sendall(POST[30:])
            assert reads(sock, len(OK)) == OK
        events = proxies.until(lambda event: event.what == "closed", SECONDS)
        overdue = sorted(event.size for event in events if event.what == "overdue")
        assert overdue == sorted([len(GET), 30, len(OK), len(POST) - 30, len(OK)])
        assert proxies.overdue == len(overdue)
        with called(port) as sock:
            sock.sendall(POST)
            proxies.delay(held(proxies, POSTED).message)
            assert everything(sock) == (b"", "reset")
        proxies.until(lambda event: event.what == "late", SECONDS)
        with called(port) as sock:
            sock.sendall(POST)
            proxies.silence(held(proxies, POSTED).message)
            assert everything(sock) == (b"", "reset")


def test_only_the_first_message_of_a_direction_can_be_released(proxies: Proxies, heard: Heard) -> None:
    """Nothing overtakes on a connection; two connections have no common order."""
    with called(heard.port) as one, called(heard.port) as two:
        one.sendall(GET + POST)
        first, second = held(proxies, GOT).message, held(proxies, POSTED).message
        with pytest.raises(LookupError, match="comes first"):
            proxies.release(second)
        two.sendall(GET)
        proxies.release(held(proxies, GOT).message)
        heard.wait(1, 0)
        proxies.release(first)
        proxies.release(second)
        heard.wait(3, 0)
        with pytest.raises(LookupError, match="not held"):
            proxies.release(second)
        with pytest.raises(LookupError, match="not a request"):
            proxies.delay(held(proxies, ANSWERED).message)


def test_a_message_of_any_size_passes(proxies: Proxies) -> None:
    """A message that is longer than what is stored arrives whole, passed on and held."""
    size = 5 * ROOM // 2
    request = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % size
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size

    def takes(sock: socket.socket, number: int) -> None:
        data = reads(sock, len(request) + size)
        sock.sendall(answer)
        sock.sendall(data[len(request) :])

    def asks(sock: socket.socket) -> bytes:
        sock.sendall(request + b"0123456789abcdef" * (size // 16))
        return reads(sock, len(answer) + size)[len(answer) :]

    seen, events = three_ways(proxies, takes, asks)
    assert seen == [b"0123456789abcdef" * (size // 16)] * 3
    assert {event.kind for event in events if event.what == "arrived"} == {BURST}


@contextlib.contextmanager
def both_ends(proxies: Proxies) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A caller and its callee, with the proxy between them."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = route(proxies, server.getsockname()[1])
        with called(port) as caller, server.accept()[0] as callee:
            callee.settimeout(SECONDS)
            yield caller, callee


def test_holding_begins_and_ends_between_messages(proxies: Proxies) -> None:
    """A message of which something has passed is not held; a part that is held passes when everything does."""
    body = b"POST /x HTTP/1.1\r\nContent-Length: 8\r\n\r\n"
    with both_ends(proxies) as (caller, callee):
        caller.sendall(body + b"1234")
        assert reads(callee, len(body) + 4) == body + b"1234"
        proxies.hold()
        caller.sendall(b"5678" + GET + body)
        assert reads(callee, 4) == b"5678"
        assert [held(proxies, GOT).size, everything(callee, quiet=0.05)] == [len(GET), (b"", "open")]
        proxies.pass_on()
        assert reads(callee, len(GET) + len(body)) == GET + body


def test_a_message_that_becomes_unreadable_is_held_from_there_on(proxies: Proxies) -> None:
    """The beginning of a message has passed, and its next chunk has no size: this is held, and its end is none."""
    with both_ends(proxies) as (caller, callee):
        chunked = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"
        caller.sendall(chunked)
        assert reads(callee, len(chunked)) == chunked
        proxies.hold()
        caller.sendall(b"no size\r\n")
        burst = held(proxies, "")
        assert everything(callee, quiet=0.05) == (b"", "open")
        caller.shutdown(socket.SHUT_WR)
        proxies.release(burst.message)
        assert (burst.kind, everything(callee)) == (BURST, (b"no size\r\n", "end"))


def test_a_sender_waits_for_its_receiver(proxies: Proxies) -> None:
    """The proxy stores some megabytes, not all that is sent; what was sent arrives in front of the end."""
    with both_ends(proxies) as (caller, callee):
        callee.settimeout(0.3)
        sent, most = 0, 256 << 20
        with contextlib.suppress(TimeoutError):
            while sent < most:
                sent += callee.send(b"x" * 65_536)
        assert 0 < sent < most
        callee.shutdown(socket.SHUT_WR)
        data, end = everything(caller)
        assert (len(data), end) == (sent, "end")


def test_the_end_of_a_sender_waits_for_its_bytes(proxies: Proxies) -> None:
    """A receiver that begins to read after the end of its sender gets all bytes first."""
    size = ROOM + (1 << 20)
    with both_ends(proxies) as (caller, callee):
        callee.sendall(b"x" * size)
        callee.shutdown(socket.SHUT_WR)
        read = 0
        while read < size:
            read += proxies.until(lambda event: event.what == "passed", SECONDS)[-1].size
        proxies.look()
        data, end = everything(caller)
        assert (len(data), end) == (size, "end")


def test_a_caller_whose_callee_is_gone_is_reset(proxies: Proxies) -> None:
    """After the end of its callee, a caller can send once or twice; then it is reset, as without the proxy."""
    with both_ends(proxies) as (caller, callee):
        callee.close()
        assert everything(caller) == (b"", "end")
        until = time.monotonic() + SECONDS
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            while time.monotonic() < until:
                caller.sendall(b"x")


def test_a_caller_that_has_closed_ends_a_silence_at_once(proxies: Proxies) -> None:
    """There is no caller left that could give up."""
    proxies.hold()
    with both_ends(proxies) as (caller, callee):
        caller.sendall(GET)
        caller.shutdown(socket.SHUT_WR)
        message = held(proxies, GOT).message
        proxies.look()
        proxies.silence(message)
        assert everything(callee) == (b"", "reset")


def test_a_delayed_request_leaves_nothing_held_on_its_connection(proxies: Proxies) -> None:
    """What is held for a caller is dropped when the caller is reset."""
    proxies.hold()
    with both_ends(proxies) as (caller, callee):
        caller.sendall(GET + POST)
        proxies.release(held(proxies, GOT).message)
        late = held(proxies, POSTED).message
        callee.sendall(OK)
        answer = held(proxies, ANSWERED).message
        proxies.delay(late)
        assert proxies.until(lambda event: event.what == "dropped", SECONDS)[-1].message == answer


PIECES = [
    GET,
    POST,
    OK,
    GET[:7],
    GET[7:],
    b"x",
    b"\0" * 100,
    b"HTTP/1.1 100 \r\n\r\n",
    b"HTTP/1.1 101 \r\n\r\n",
    ODD_CHUNKS,
]


@pytest.mark.parametrize("seed", range(20))
def test_bytes_stay_as_they_are_whatever_is_held_and_released(seed: int, proxies: Proxies) -> None:
    """Drawn pieces in both directions, while messages are held, released and passed on, arrive whole and in order."""
    draw = random.Random(seed)
    with both_ends(proxies) as ends:
        sent = [bytearray(), bytearray()]
        for _ in range(40):
            step = draw.choice(["send", "send", "send", "hold", "pass", "release"])
            if step == "send":
                way, piece = draw.randrange(2), draw.choice(PIECES)
                ends[way].sendall(piece)
                sent[way] += piece
            elif step == "hold":
                proxies.hold()
            elif step == "pass":
                proxies.pass_on()
            else:
                for event in proxies.events(0.005):
                    if event.what == "arrived":
                        with contextlib.suppress(LookupError):  # not the first one, or delivered in the meantime
                            proxies.release(event.message)
        for end in ends:
            end.shutdown(socket.SHUT_WR)
        proxies.pass_on()
        assert [everything(end) for end in reversed(ends)] == [(bytes(each), "end") for each in sent]


def descriptors(pid: int) -> int:
    """How many descriptors a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def arrived(connection: int, event: Event) -> bool:
    """Whether an event is about a message that is held of a connection."""
    return (event.what, event.connection) == ("arrived", connection)


ENDS = ("whole", "reset", "half", "early", "held")


def test_hundreds_of_connections_leave_no_descriptor(proxies: Proxies) -> None:
    """However 600 connections end, afterwards the proxy has as many descriptors as before."""
    server = Server(answers)
    port = route(proxies, server.target.port)
    before, seen = descriptors(proxies.pid), list[Event]()
    for turn in range(600):
        end = ENDS[turn % len(ENDS)]
        if end == "held":
            proxies.hold()
        with called(port) as sock:
            sock.sendall(GET[:9] if end == "half" else GET * 2)
            if end == "whole":
                assert reads(sock, 2 * len(OK)) == 2 * OK
            elif end == "reset":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            elif end == "half":
                sock.shutdown(socket.SHUT_WR)
                assert everything(sock) == (b"", "end")
            elif end == "held":
                seen += proxies.until(partial(arrived, turn + 1), SECONDS)
                message = seen[-1].message
                [proxies.lose, proxies.delay, proxies.silence, proxies.release][turn // len(ENDS) % 4](message)
                if turn // len(ENDS) % 4 == 1:
                    proxies.arrive(message)
        if end == "held":
            proxies.pass_on()
            seen += proxies.events(0.0)
    server.sock.close()
    while sum(event.what == "closed" for event in seen) < 600:
        seen += proxies.until(lambda event: event.what == "closed", SECONDS)
    proxies.look()
    assert {event.connection for event in seen if event.what == "closed"} == set(range(1, 601))
    assert descriptors(proxies.pid) == before


HOLDER = """
import socket, sys, time
from grader.explore.proxies import Proxies
proxies = Proxies(hold=60.0)
proxies.between("order", "stock", [("127.0.0.1", int(sys.argv[1]))], ("127.0.0.1", int(sys.argv[2])))
proxies.hold()
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
sock.sendall(b"GET / HTTP/1.1\\r\\n\\r\\n")
proxies.until(lambda event: event.what == "arrived", 20.0)
print(proxies.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_proxy_ends_with_the_process_that_started_it(how: signal.Signals) -> None:
    """If the grader is killed while messages are held, its proxy ends, and its ports are free."""
    (port,) = free_ports(1)
    with contextlib.closing(Server(answers).sock) as server:
        words = [sys.executable, "-c", HOLDER, str(port), str(server.getsockname()[1])]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
            assert parent.stdout is not None
            proxy = os.pidfd_open(int(parent.stdout.readline()))
            try:
                parent.send_signal(how)
                assert select.select([proxy], [], [], SECONDS)[0], "the proxy still runs"
            finally:
                os.close(proxy)
    with pytest.raises(ConnectionRefusedError), called(port):
        pytest.fail("something still listens")


def test_the_proxy_has_one_thread_and_no_numpy(proxies: Proxies) -> None:
    """It starts within the time of a small program, and is never behind a lock."""
    proxies.look()
    assert len(list(Path(f"/proc/{proxies.pid}/task").iterdir())) == 1
    assert "numpy" not in Path(f"/proc/{proxies.pid}/maps").read_text()


def test_a_proxy_that_has_ended_is_an_error_of_the_grader(proxies: Proxies) -> None:
    """A command to a proxy that was killed ends the run, and does not wait."""
    proxies.hold()
    os.kill(proxies.pid, signal.SIGKILL)
    with pytest.raises(VoidError, match="has exited"):
        while True:
            proxies.look()


def test_a_request_that_is_kept_in_silence_arrives_when_its_caller_has_given_up(proxies: Proxies, heard: Heard) -> None:
    """The caller hears nothing. While it waits, the request cannot arrive."""
    with called(heard.port) as sock:
        sock.sendall(POST)
        message = held(proxies, POSTED).message
        proxies.silence(message, keep=True)
        assert everything(sock, quiet=0.05) == (b"", "open")
        with pytest.raises(LookupError, match="still waits"):
            proxies.arrive(message)
    proxies.until(lambda event: event.what == "gone", SECONDS)
    heard.wait(0, 0)
    proxies.arrive(message)
    heard.wait(1, 1)


def test_a_silent_caller_that_does_not_give_up_is_reset_before_its_request_arrives() -> None:
    """After ``late`` seconds."""
    with Proxies(hold=60.0, late=0.1) as proxies, contextlib.closing(Server(answers).sock) as server:
        port = route(proxies, server.getsockname()[1])
        proxies.hold()
        with called(port) as sock:
            sock.sendall(POST)
            proxies.silence(held(proxies, POSTED).message, keep=True)
            assert everything(sock) == (b"", "reset")
        events = proxies.until(lambda event: event.what == "late", SECONDS)
        assert [event.what for event in events] == ["silent", "kept", "late"]


@pytest.mark.parametrize("nth", [1, 2])
def test_processes_are_killed_when_a_message_has_arrived(nth: int, proxies: Proxies, heard: Heard) -> None:
    """At once, at the nth message with the words, with the names of ids; the message is still held."""
    with subprocess.Popen(["sleep", "600"]) as victim, called(heard.port) as sock:
        try:
            proxies.aim([victim.pid], "order->stock GET /find/X", nth, {"7": "X"})
            for turn in range(1, nth + 1):
                assert victim.poll() is None
                sock.sendall(POST)
                proxies.release(held(proxies, POSTED).message)
                proxies.release(held(proxies, ANSWERED).message)
                sock.sendall(GET)
                number = held(proxies, GOT).message
                if turn == nth:
                    struck = proxies.until(lambda event: event.what == "struck", SECONDS)[-1]
                    assert struck.message == number
                    assert victim.wait(SECONDS) == -signal.SIGKILL
                proxies.release(number)
                proxies.release(held(proxies, ANSWERED).message)
        finally:
            victim.kill()


def test_no_process_is_killed_if_the_aim_was_taken_back(proxies: Proxies, heard: Heard) -> None:
    """As at the end of a run in which the message has not come."""
    with subprocess.Popen(["sleep", "600"]) as victim, called(heard.port) as sock:
        try:
            proxies.aim([victim.pid], "order->stock GET /find/7", 1)
            proxies.aim(())
            sock.sendall(GET)
            proxies.release(held(proxies, GOT).message)
            heard.wait(1, 0)
            assert victim.poll() is None
        finally:
            victim.kill()


def test_messages_of_a_process_that_starts_are_not_held_as_usual(proxies: Proxies, heard: Heard) -> None:
    """HTTP is delivered soon; what is not HTTP at once. Later messages are held again."""
    seen: list[Event] = []
    for data in (GET, b"\x00\x01 no HTTP"):
        with called(heard.port) as sock:
            proxies.starting(["stock"])
            sock.sendall(data)
            seen += proxies.until(lambda event: event.what in ("delivered", "passed"), SECONDS)[-1:]
            if data == GET:  # its answer
                proxies.until(lambda event: event.what == "delivered", SECONDS)
    assert [(each.what, each.size) for each in seen] == [("delivered", len(GET)), ("passed", 10)]
    proxies.starting([])
    proxies.pass_on()
    proxies.hold()
    with called(heard.port) as sock:
        sock.sendall(GET)
        held(proxies, GOT)
        assert everything(sock, quiet=0.5) == (b"", "open")


def test_a_moment_of_a_process_stands_among_the_events(proxies: Proxies, heard: Heard) -> None:
    """It has a time, as all events have, behind what came before."""
    with called(heard.port) as sock:
        sock.sendall(GET)
        first = held(proxies, GOT)
        proxies.note("killed", "stock")
        (event,) = proxies.events(0.0)
        assert (event.what, event.sender) == ("killed", "stock") and event.at >= first.at > 0.0


def test_connections_that_pass_no_proxy_are_found(proxies: Proxies, heard: Heard) -> None:
    """One that a process has opened itself, and none of the proxy."""
    real = {"stock": ("127.0.0.1", heard.server.target.port)}
    with called(heard.port) as sock:
        sock.sendall(GET)
        proxies.release(held(proxies, GOT).message)
        held(proxies, ANSWERED)
        assert proxies.strangers(real) == set()
        with called(heard.server.target.port) as direct:
            ((name, place),) = proxies.strangers(real)
            assert name == "stock" and place.endswith(f":{direct.getsockname()[1]:04X}")
