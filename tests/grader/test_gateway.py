"""The kit's gateway: which service gets a request, with which path, and what the client sees if a service fails."""

from __future__ import annotations

import contextlib
import http.client
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from boxes import said, sandbox

from grader.processes.python import GATEWAY, programs_of
from grader.wire.network import free_ports

Answer = Callable[[socket.socket, bytes], None]


class Service:
    """A service in a thread: it keeps the first line and the body of each request, and answers by a function."""

    def __init__(self, answer: Answer) -> None:
        self.seen: list[tuple[str, bytes]] = []
        self._answer, self._listener = answer, socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return  # closed
            with sock, contextlib.suppress(ConnectionError):
                head, _, body = sock.recv(65_536).partition(b"\r\n\r\n")
                self.seen.append((head.split(b"\r\n")[0].decode(), body))
                self._answer(sock, head)

    def close(self) -> None:
        with contextlib.suppress(OSError):  # closed before, by the test
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def says(data: bytes) -> Answer:
    """Answer these bytes and close the connection."""
    return lambda sock, head: sock.sendall(data)


OK = says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
Start = Callable[..., int]
Serve = Callable[[Answer], Service]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start services; they are closed at the end."""
    with contextlib.ExitStack() as ends:

        def one(answer: Answer) -> Service:
            service = Service(answer)
            ends.callback(service.close)
            return service

        yield one


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a gateway with these routes and return its port."""
    with contextlib.ExitStack() as ends:

        def one(*routes: str, address: str = "127.0.0.1") -> int:
            (port,) = free_ports(1)
            words = [sys.executable, "-I", "-S", str(GATEWAY), address, str(port), *routes]
            process = subprocess.Popen(words, stderr=subprocess.PIPE)
            ends.callback(process.wait)
            ends.callback(process.kill)
            assert process.stderr is not None
            ends.enter_context(process.stderr)
            while True:
                try:
                    socket.create_connection((address, port)).close()
                    return port
                except ConnectionRefusedError:
                    assert process.poll() is None, process.stderr.read()

        yield one


def ask(port: int, path: str, method: str = "GET", body: bytes | None = None) -> tuple[int, bytes]:
    """Send one request to a gateway. Returns the status and the body of the answer."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        line.request(method, path, body)
        answer = line.getresponse()
        return answer.status, answer.read()
    finally:
        line.close()


def test_the_path_of_an_address_replaces_the_prefix_and_the_longest_prefix_wins(start: Start, serve: Serve) -> None:
    """As proxy_pass of nginx: with a path it replaces the prefix, without one the path stays; the query stays too."""
    one, two, three = (serve(OK) for _ in range(3))
    port = start(f"/orders/={one.url}/", f"/stock={two.url}", f"/orders/find={three.url}/api/find")
    assert ask(port, "/orders/checkout/7?x=1", "POST", b"body") == (200, b"ok")
    assert ask(port, "/stock/find/7") == ask(port, "/orders/find/8") == (200, b"ok")
    assert one.seen == [("POST /checkout/7?x=1 HTTP/1.0", b"body")]
    assert two.seen == [("GET /stock/find/7 HTTP/1.0", b"")]
    assert three.seen == [("GET /api/find/8 HTTP/1.0", b"")]
    status, body = ask(port, "/payment/find_user/1")
    assert status == 404 and b"no route" in body


def test_addresses_take_turns_and_a_service_that_is_down_is_passed_over(start: Start, serve: Serve) -> None:
    """Two addresses get every second request; if one refuses the connection, the other gets all; if both do, 502."""
    one, two = serve(OK), serve(OK)
    port = start(f"/={one.url}", f"/={two.url}")
    assert [ask(port, f"/{n}")[0] for n in range(4)] == [200] * 4
    assert len(one.seen) == len(two.seen) == 2
    one.close()
    assert [ask(port, f"/{n}")[0] for n in range(4)] == [200] * 4
    assert len(two.seen) == 6
    two.close()
    status, body = ask(port, "/")
    assert status == 502 and b"refuses the connection" in body


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"HTTP/1.1 200 OK\r\nContent-Le", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", b"hello\r\n\r\n"),
        *(
            b"HTTP/1.1 200 OK\r\nContent-Length: %b\r\n\r\nok" % length
            for length in (b"1" * 5_000, b"-2", b"2_0", b"\xb2")
        ),
    ],
    ids=str.split("nothing head body no-http digits negative underscore no-ascii"),
)
def test_an_incomplete_answer_is_502_and_is_not_asked_again(start: Start, serve: Serve, data: bytes) -> None:
    """The request may have had an effect, so the next address does not get it."""
    one = serve(says(data))
    port = start(f"/={one.url}", f"/={one.url}")
    assert ask(port, "/pay/1", "POST")[0] == 502
    assert len(one.seen) == 1


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"HTTP/1.0 404 Not Found\r\n\r\nuntil the end", (404, b"until the end")),
        (b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", (201, b"abc")),
        (b"HTTP/1.1 204 No Content\r\n\r\n", (204, b"")),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"x" * 200_000, (200, b"x" * 200_000)),
    ],
)
def test_each_way_to_end_an_answer_arrives(
    start: Start, serve: Serve, data: bytes, expected: tuple[int, bytes]
) -> None:
    """An answer may end with its length, its last chunk or the connection."""
    port = start(f"/={serve(says(data)).url}")
    assert ask(port, "/") == expected


def test_a_service_that_keeps_the_connection_open_does_not_delay_the_answer(start: Start, serve: Serve) -> None:
    """The answer is complete at its length, even if the service ignores Connection: close."""
    free = threading.Event()

    def keeps(sock: socket.socket, head: bytes) -> None:
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        free.wait(60)

    port = start(f"/={serve(keeps).url}")
    try:
        assert ask(port, "/") == (200, b"ok")
    finally:
        free.set()


def test_requests_of_one_connection_are_answered_in_order(start: Start, serve: Serve) -> None:
    """Requests that arrive in pieces or together get one answer each; the last one asks to close the connection."""
    port = start(f"/={serve(lambda sock, head: OK(sock, head)).url}")
    two = b"GET /1 HTTP/1.1\r\nHost: x\r\n\r\nPOST /2 HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"
    three = b"GET /3 HTTP/1.1\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
        sock.sendall(two[:5])
        sock.sendall(two[5:] + three)
        got = b"".join(iter(lambda: sock.recv(65_536), b""))
    assert got.count(b"HTTP/1.1 200 OK") == 3 and got.count(b"Connection: close") == 1


@pytest.mark.parametrize("head", [b"GARBAGE", b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked"])
def test_a_request_that_it_cannot_read_is_400(start: Start, serve: Serve, head: bytes) -> None:
    """The service gets nothing."""
    service = serve(OK)
    port = start(f"/={service.url}")
    with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
        sock.sendall(head + b"\r\n\r\n")
        assert sock.recv(65_536).startswith(b"HTTP/1.1 400 ")
    assert service.seen == []


def test_it_listens_on_its_address_only(start: Start, serve: Serve) -> None:
    """Another process can use the same port at another loopback address."""
    port = start(f"/={serve(OK).url}", address="127.0.0.2")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


INSIDE = """
import http.server, subprocess, sys, threading, time, urllib.request
gateway, one, two = sys.argv[1].split()
class Shop(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.path.encode())
    def log_message(self, *of):
        pass
shop = http.server.HTTPServer(("127.0.0.2", int(one)), Shop)
threading.Thread(target=shop.serve_forever, daemon=True).start()
words = [sys.executable, "-I", "-S", gateway, "127.0.0.3", two, f"/stock/=http://127.0.0.2:{one}/"]
process = subprocess.Popen(words)
while process.poll() is None:
    try:
        print(urllib.request.urlopen(f"http://127.0.0.3:{two}/stock/find/7").read())
        break
    except OSError:
        time.sleep(0.05)
process.kill()
"""


@pytest.mark.parametrize("tier", [1, 2])
def test_it_runs_in_the_sandbox(tmp_path: Path, tier: int) -> None:
    """Its program can be read, and it connects to a service at another loopback address."""
    ports = tuple(free_ports(2))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    box = sandbox(tier, scratch, None, programs_of(None, scratch))
    try:
        status, text = said(box, INSIDE, f"{GATEWAY} {ports[0]} {ports[1]}", tmp_path / "data", ports)
    finally:
        box.close()
    assert (status, text) == (0, "b'/find/7'\n")
