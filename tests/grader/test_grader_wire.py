"""The generator against servers that answer in every legal way and in some illegal ones."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.terms import Status
from grader.wire.client import Generator
from grader.wire.http import LONGEST_BODY, Malformed, read_answer
from grader.wire.jobs import EACH, ROOM, Job, Result, Shape, Target
from grader.wire.network import LEAST_PORT

WHOLE = [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", (200, b"hello", True)),
    (b"HTTP/1.1 201 Created\r\ncontent-length:0\r\nConnection: close\r\n\r\n", (201, b"", False)),
    (b"HTTP/1.0 404 Not Found\r\nContent-Length: 2\r\n\r\n{}", (404, b"{}", False)),
    (b"HTTP/1.1 204 \r\n\r\n", (204, b"", True)),
    (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", (200, b"x", True)),
    (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=1\r\nde\r\n0\r\n\r\n",
        (200, b"abcde", True),
    ),
    (b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nTrailer: 1\r\n\r\n", (500, b"", True)),
]


@pytest.mark.parametrize(("raw", "answer"), WHOLE)
def test_an_answer_is_whole_exactly_at_its_end(raw: bytes, answer: tuple[int, bytes, bool]) -> None:
    """An answer is complete with its last byte and not before, however it is split."""
    assert read_answer(raw, closed=False) == answer
    assert all(read_answer(raw[:cut], closed=False) is None for cut in range(len(raw)))


def test_a_body_may_end_with_the_connection() -> None:
    """Without a length, the body ends when the other side closes."""
    raw = b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\nall of it"
    assert read_answer(raw, closed=False) is None
    assert read_answer(raw, closed=True) == (200, b"all of it", False)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_are_refused(raw: bytes) -> None:
    """Any bytes from a server raise at most Malformed."""
    for prefix in (b"", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"HTTP/1.1 200 OK\r\n"):
        try:
            read_answer(prefix + raw, closed=True)
        except Malformed:
            continue


class Server:
    """A server on a free port. ``serve(connection, number)`` handles each connection in a thread."""

    def __init__(self, serve: Callable[[socket.socket, int], None]) -> None:
        self.sock = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.target = Target("127.0.0.1", self.sock.getsockname()[1])
        self.accepted = 0
        self._serve = serve
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.sock.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self._one, args=(connection, self.accepted), daemon=True).start()

    def _one(self, connection: socket.socket, number: int) -> None:
        with connection:
            try:
                self._serve(connection, number)
            except OSError:
                return


@pytest.fixture(scope="module")
def generator() -> Iterator[Generator]:
    child = Generator()
    yield child
    child.close()


def job(target: Target, count: int, **options: object) -> Job:
    shape = Shape(0, b"POST /x/", b" HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
    due = np.arange(count, dtype=np.int64) * 1_000_000
    defaults = {"connections": 64, "timeout": 20_000_000_000, "patience": 0, "bodies": True, **options}
    ids = [b"%d" % i for i in range(count)]
    return Job([target], [shape], np.zeros(count, dtype=np.int64), ids, due, **defaults)  # type: ignore[arg-type]


def run(
    generator: Generator, serve: Callable[[socket.socket, int], None], count: int = 20, **options: object
) -> Result:
    server = Server(serve)
    try:
        return generator.run(job(server.target, count, **options))
    finally:
        server.sock.close()


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def steady(answer: bytes, close: bool = False) -> Callable[[socket.socket, int], None]:
    def serve(connection: socket.socket, number: int) -> None:
        while connection.recv(4096):
            if close:
                # One segment carries the answer and the end, so that no client sees the one without the other.
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
            connection.sendall(answer)
            if close:
                connection.shutdown(socket.SHUT_RDWR)
                return

    return serve


def test_connections_are_kept_and_opened_only_on_demand(generator: Generator) -> None:
    """A free connection is reused, also by the next job. Otherwise a new one is opened, up to the limit."""
    server = Server(steady(OK))
    jobs = [job(server.target, count, connections=most) for count, most in ((1, 1), (200, 1), (200, 8))]
    first, second, wider = map(generator.run, jobs)
    server.sock.close()
    assert (first.opened, second.opened) == (1, 0) and wider.opened <= 7
    assert server.accepted == 1 + wider.opened
    for result in (first, second, wider):
        assert set(result.status) == {200} and set(result.bodies) == {b"{}"}
        assert (result.sent <= result.done).all()


def test_a_closed_connection_is_replaced_before_it_is_written_to(generator: Generator) -> None:
    """A server that closes silently after each answer costs a connection for each request, and no request."""
    result = run(generator, steady(OK, close=True), 100)
    assert set(result.status) == {200} and result.opened == 100


def test_answers_in_single_bytes_and_chunks_are_read(generator: Generator) -> None:
    """Answers in any pieces are complete."""

    def serve(connection: socket.socket, number: int) -> None:
        while connection.recv(4096):
            for byte in b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n":
                connection.sendall(bytes([byte]))

    result = run(generator, serve)
    assert set(result.status) == {201} and set(result.bodies) == {b"ab"}


def test_what_is_no_answer_is_told_apart(generator: Generator) -> None:
    """Silence is a timeout, a close is a reset, other bytes are garbage, and a closed port is a refusal."""

    def silent(connection: socket.socket, number: int) -> None:
        connection.recv(4096)
        connection.recv(4096)

    def rude(connection: socket.socket, number: int) -> None:
        connection.recv(4096)

    assert set(run(generator, silent, 5, timeout=100_000_000).status) == {Status.TIMEOUT}
    assert set(run(generator, rude, 5).status) == {Status.RESET}
    assert set(run(generator, steady(b"SSH-2.0 hello\r\n\r\n"), 5).status) == {Status.GARBAGE}
    assert set(run(generator, steady(OK[:-1], close=True), 5).status) == {Status.RESET}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert set(generator.run(job(Target("127.0.0.1", port), 5)).status) == {Status.REFUSED}


def test_the_clock_does_not_wait_for_a_stalled_server(generator: Generator) -> None:
    """While a server stalls, later requests are still sent, over new connections."""
    everybody = threading.Barrier(40)

    def serve(connection: socket.socket, number: int) -> None:
        with suppress(threading.BrokenBarrierError):  # then nothing is answered, and the test fails by the status
            while connection.recv(4096):
                everybody.wait(timeout=120)
                connection.sendall(OK)

    server = Server(serve)
    result, again = (generator.run(job(server.target, 40)) for _ in range(2))
    server.sock.close()
    assert set(result.status) == {200} and result.opened == 40
    assert result.sent.max() < result.done.min(), "the last was sent before the first was answered"
    assert set(again.status) == {200} and again.opened == 0, "those forty were free"


def test_what_cannot_be_sent_in_time_is_dropped(generator: Generator) -> None:
    """If all connections are busy, a request is dropped when its patience ends."""
    dropped = threading.Event()

    def serve(connection: socket.socket, number: int) -> None:
        while connection.recv(4096):
            dropped.wait(timeout=120)
            connection.sendall(OK)

    server = Server(serve)
    generator.start(job(server.target, 10, connections=2, patience=50_000_000, tell_after=8))
    while not isinstance(result := generator.poll(5.0), Result):
        if result is not None and result.ended == 8:
            dropped.set()
    server.sock.close()
    assert (result.status == 200).sum() == 2 and (result.status == Status.DROPPED).sum() == 8
    assert (result.sent[result.status == Status.DROPPED] == 0).all() and result.waited.sum() == 8


def test_a_system_that_hangs_is_given_up(generator: Generator) -> None:
    """After some timeouts in a row the rest is not sent. An answer between them resets the count."""

    def silent(connection: socket.socket, number: int) -> None:
        while connection.recv(4096):
            continue

    def seldom(connection: socket.socket, number: int) -> None:
        while connection.recv(4096):
            if number % 4 == 0:
                connection.sendall(OK)

    options = {"connections": 4, "timeout": 100_000_000, "silence": 8}
    given_up = run(generator, silent, 40, **options)
    late = (given_up.status == Status.TIMEOUT).sum()
    assert 8 <= late <= 12 and (given_up.status == Status.DROPPED).sum() == 40 - late
    kept_on = run(generator, seldom, 16, **{**options, "timeout": 2_000_000_000})
    assert {200, Status.TIMEOUT} == set(kept_on.status)


def test_a_job_can_be_stopped(generator: Generator) -> None:
    """After a stop no request is sent, and open requests are waited for."""
    server = Server(steady(OK))
    generator.start(job(server.target, 5_000))
    assert generator.poll(2.0) is not None
    generator.stop()
    result = generator.poll(5.0)
    while not isinstance(result, Result):
        result = generator.poll(5.0)
    server.sock.close()
    assert set(result.status) == {200, Status.DROPPED}


def test_ports_of_services_are_no_ports_of_connections(generator: Generator) -> None:
    """While a service is down, no outgoing connection can get its port."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = generator.ports(20)
    # A machine may be set so that connections get every port; then there is nothing to choose from.
    assert len(set(ports)) == 20 and (max(ports) < first or first <= LEAST_PORT + 20)
    with socket.create_server(("127.0.0.1", ports[0])):
        assert ports[0] not in generator.ports(20)


@pytest.mark.parametrize(
    "begin", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3ffff\r\n"]
)
def test_an_answer_without_end_is_cut_off(generator: Generator, begin: bytes) -> None:
    """An endless answer is garbage at the limit, long before the timeout."""

    def serve(connection: socket.socket, number: int) -> None:
        with suppress(OSError):  # the other end has had enough
            if connection.recv(4096):
                connection.sendall(begin)
                while True:
                    connection.sendall(b"x" * 65_536)

    assert set(run(generator, serve, 2).status) == {Status.GARBAGE}


def test_long_bodies_do_not_fill_the_memory(generator: Generator) -> None:
    """A body of up to 256 KiB is an answer, a longer one garbage. Beyond the job's limit, bodies are returned empty."""

    def answers(size: int, count: int) -> Result:
        text = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size
        server = Server(steady(text))
        result = generator.run(replace(job(server.target, count), bodies=True))
        server.sock.close()
        return result

    assert set(answers(LONGEST_BODY + 1, 3).status) == {Status.GARBAGE}
    count = ROOM // LONGEST_BODY + 20
    result = answers(LONGEST_BODY, count)
    assert set(result.status) == {200}
    kept = sum(map(len, result.bodies))
    assert ROOM // 2 < kept <= ROOM + EACH * count and {len(body) for body in result.bodies} == {0, LONGEST_BODY}
