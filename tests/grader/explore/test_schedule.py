"""A checkout behind the proxy, message by message, and when its processes are quiet."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grader.explore import quiet
from grader.explore.connection import Event
from grader.explore.proxies import Proxies
from grader.explore.quiet import Quiet
from grader.explore.schedule import Schedule
from grader.sandbox.tree import descendants, processes
from grader.wire.child import free_ports

START = Path(__file__).resolve().parents[3] / "labs" / "checkout" / "start"
SECONDS = 30.0
NAMES = ("stock", "payment", "order")


@contextlib.contextmanager
def shop(proxies: Proxies, data: Path) -> Iterator[tuple[dict[str, int], Callable[[], set[int]]]]:
    """The three services of `start`, which reach each other through the proxy. Returns its ports for the client."""
    real = dict(zip(NAMES, free_ports(3), strict=True))
    ways = [("client", name) for name in NAMES] + [("order", "stock"), ("order", "payment")]
    fresh = dict(zip(ways, free_ports(len(ways)), strict=True))
    for (caller, callee), port in fresh.items():
        proxies.between(caller, callee, [("127.0.0.1", port)], ("127.0.0.1", real[callee]))
    with contextlib.ExitStack() as ends:
        running = []
        for name in NAMES:
            environment = {
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(START),
                "PYTHONDONTWRITEBYTECODE": "1",
                "DATABASE": str(data / f"{name}.db"),
                "STOCK": f"http://127.0.0.1:{fresh['order', 'stock']}",
                "PAYMENT": f"http://127.0.0.1:{fresh['order', 'payment']}",
            }
            bind = f"127.0.0.1:{real[name]}"
            words = [sys.executable, "-m", "gunicorn", "--bind", bind, "--threads", "16", "app:app"]
            log = ends.enter_context((data / f"{name}.txt").open("wb"))
            process = subprocess.Popen(words, cwd=START / name, env=environment, stdout=log, stderr=log)
            ends.callback(process.wait)
            ends.callback(process.terminate)
            running.append(process.pid)
        until = time.monotonic() + SECONDS
        for name in NAMES:
            while not reachable(fresh["client", name]):
                assert time.monotonic() < until, (data / f"{name}.txt").read_text()
        yield (
            {name: fresh["client", name] for name in NAMES},
            lambda: set(running) | descendants(running, processes()),
        )


def reachable(port: int) -> bool:
    """Whether a port accepts connections."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
        return True
    except ConnectionRefusedError:
        return False


def send(port: int, path: str, method: str = "POST") -> socket.socket:
    """Send a request."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
    sock.sendall(f"{method} {path} HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
    return sock


def answer(sock: socket.socket) -> tuple[int, Any]:
    """Status and JSON of an answer."""
    with sock:
        raw = b""
        while data := sock.recv(65_536):
            raw += data
    head, _, body = raw.partition(b"\r\n\r\n")
    return int(head[9:12]), json.loads(body) if body.startswith(b"{") else body


def ask(port: int, path: str, method: str = "POST") -> Any:
    """A request that must be answered 200. Returns the JSON of the answer."""
    status, body = answer(send(port, path, method))
    assert status == 200, body
    return body


def plain(event: Event, names: dict[str, str]) -> str:
    """A message with the names of the ids."""
    text = re.sub("[0-9a-f-]{32,}", lambda found: names[found[0]], event.first)
    return f"{event.sender}->{event.receiver} {text}"


CHECKOUT = [
    "client->order POST /checkout/O HTTP/1.1",
    "order->stock POST /subtract/X/2 HTTP/1.1",
    "stock->order HTTP/1.1 200 OK",
    "order->stock POST /subtract/Y/3 HTTP/1.1",
    "stock->order HTTP/1.1 200 OK",
    "order->payment POST /pay/U/31 HTTP/1.1",
    "payment->order HTTP/1.1 200 OK",
    "order->client HTTP/1.1 200 OK",
]


def test_a_checkout_is_the_same_list_of_messages_each_time(tmp_path: Path) -> None:
    """Three checkouts of the system to start from, delivered one message at a time, have the same messages."""
    with Proxies() as proxies, shop(proxies, tmp_path) as (ports, pids):
        schedule, seen = Schedule(proxies, pids), []
        user = ask(ports["payment"], "/create_user")["user_id"]
        ask(ports["payment"], f"/add_funds/{user}/100")
        items = [ask(ports["stock"], f"/item/create/{price}")["item_id"] for price in (5, 7)]
        for item in items:
            ask(ports["stock"], f"/add/{item}/20")
        for _ in range(3):
            order = ask(ports["order"], f"/create/{user}")["order_id"]
            for item, quantity in zip(items, (2, 3), strict=True):
                ask(ports["order"], f"/addItem/{order}/{item}/{quantity}")
            names = {user: "U", items[0]: "X", items[1]: "Y", order: "O"}
            proxies.hold()
            proxies.events(0.0)
            sock = send(ports["order"], f"/checkout/{order}")
            events = schedule.run(lambda sock=sock: bool(select.select([sock], [], [], 0)[0]), SECONDS)  # type: ignore[misc]
            assert answer(sock)[0] == 200
            proxies.pass_on()
            seen.append([plain(event, names) for event in events])
        assert seen == [CHECKOUT] * 3
        assert ask(ports["payment"], f"/find_user/{user}", "GET")["credit"] == 100 - 3 * 31
        assert [ask(ports["stock"], f"/find/{item}", "GET")["stock"] for item in items] == [20 - 3 * 2, 20 - 3 * 3]
        assert proxies.overdue == 0


PROGRAMS = {
    "waits": "input()",
    "works": "while True: pass",
    "polls": "import time\nwhile True: time.sleep(0.005)",
    "polls in a thread": "import threading, time\ndef poll():\n    while True: time.sleep(0.005)\n"
    "threading.Thread(target=poll, daemon=True).start()\ninput()",
}


@contextlib.contextmanager
def program(text: str) -> Iterator[int]:
    """A program that has said that it runs."""
    words = [sys.executable, "-c", f"print('runs', flush=True)\n{text}"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"runs\n"
        try:
            yield process.pid
        finally:
            process.kill()


def nothing(seconds: float) -> bool:
    """No message arrives."""
    time.sleep(seconds)
    return False


@pytest.mark.parametrize(
    ("name", "is_quiet"), [("waits", True), ("works", False), ("polls", True), ("polls in a thread", True)]
)
def test_a_process_is_quiet_if_it_only_waits_or_polls(name: str, is_quiet: bool) -> None:
    """A process that waits is quiet, one that works is not, and a thread that polls is ignored after a while."""
    with program(PROGRAMS[name]) as pid:
        waiting = Quiet(lambda: [pid], nothing)
        assert waiting.wait(most=SECONDS if is_quiet else 0.4) is is_quiet
        assert waiting.waits == int(not is_quiet)


def test_it_is_not_quiet_while_messages_arrive() -> None:
    """A message begins the wait again, and a thread that runs for messages is not ignored."""
    left = Counter({"messages": 20})

    def arrived(seconds: float) -> bool:
        left["messages"] -= 1
        return left["messages"] >= 0

    assert Quiet(list, arrived).wait(seconds=0.0, most=SECONDS)
    assert left["messages"] < 0


def test_a_process_that_has_ended_is_quiet() -> None:
    """A list of processes can be older than their end."""
    with program("pass") as pid:
        pass
    assert Quiet(lambda: [pid], nothing).wait(most=SECONDS)


def test_a_kernel_without_counts_is_said_in_a_sentence(tmp_path: Path) -> None:
    """Where the kernel does not count, the file is missing or has only zeros."""
    assert quiet.uncounted() == ""
    (tmp_path / "schedstat").write_text("0 0 0\n")
    said = {quiet.uncounted(str(tmp_path / name)) for name in ("schedstat", "missing")}
    assert said == {
        "This kernel has no schedstat, so a message can be delivered while a process still works on the last one."
    }
