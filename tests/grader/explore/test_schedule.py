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
from grader.explore.schedule import Fate, Schedule
from grader.sandbox.tree import descendants, processes
from grader.wire.network import free_ports

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


class World:
    """A user with 100 credits and two items of which there are 20, in a shop whose messages can be held."""

    def __init__(self, proxies: Proxies, ports: dict[str, int], schedule: Schedule) -> None:
        self.proxies, self.ports, self.schedule = proxies, ports, schedule
        self.user = ask(ports["payment"], "/create_user")["user_id"]
        ask(ports["payment"], f"/add_funds/{self.user}/100")
        self.items = [ask(ports["stock"], f"/item/create/{price}")["item_id"] for price in (5, 7)]
        for item in self.items:
            ask(ports["stock"], f"/add/{item}/20")

    def order(self) -> str:
        """A new order: two of the first item and three of the second."""
        order = str(ask(self.ports["order"], f"/create/{self.user}")["order_id"])
        for item, quantity in zip(self.items, (2, 3), strict=True):
            ask(self.ports["order"], f"/addItem/{order}/{item}/{quantity}")
        return order

    def checkout(self, order: str, fates: dict[int, Fate]) -> tuple[int, list[str]]:
        """Check an order out, message by message. Returns the status, and the messages."""
        names = {self.user: "U", self.items[0]: "X", self.items[1]: "Y", order: "O"}
        self.schedule.begin()
        sock = send(self.ports["order"], f"/checkout/{order}")
        events = self.schedule.run(
            lambda: bool(select.select([sock], [], [], 0)[0]), SECONDS, lambda nth, event: fates.get(nth)
        )
        status, _ = answer(sock)
        return status, [plain(event, names) for event in events]

    def values(self, order: str) -> tuple[bool, int, list[int]]:
        """Whether an order is paid, the credit, and the stock."""
        self.proxies.pass_on()
        paid = ask(self.ports["order"], f"/find/{order}", "GET")["paid"]
        credit = ask(self.ports["payment"], f"/find_user/{self.user}", "GET")["credit"]
        return paid, credit, [ask(self.ports["stock"], f"/find/{item}", "GET")["stock"] for item in self.items]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], World]]:
    """Create worlds in one shop."""
    with Proxies() as proxies, shop(proxies, tmp_path_factory.mktemp("start")) as (ports, pids):
        schedule = Schedule(proxies, pids)
        yield lambda: World(proxies, ports, schedule)


def test_a_checkout_is_the_same_list_of_messages_each_time(make: Callable[[], World]) -> None:
    """Three checkouts of the system to start from, delivered one message at a time, have the same messages."""
    world = make()
    for turn in (1, 2, 3):
        order = world.order()
        assert world.checkout(order, {}) == (200, CHECKOUT)
        assert world.values(order) == (True, 100 - turn * 31, [20 - turn * 2, 20 - turn * 3])
    assert world.proxies.overdue == 0


def test_a_request_that_arrives_late_takes_stock_for_an_order_that_is_not_paid(make: Callable[[], World]) -> None:
    """The shortest wrong run of `start`: a connection breaks, the answer is 503, and the request arrives late."""
    world, late = make(), []

    def delay(message: int) -> None:
        late.append(message)
        world.proxies.delay(message)

    order = world.order()
    status, messages = world.checkout(order, {2: delay})
    assert (status, messages) == (503, [*CHECKOUT[:2], "order->client HTTP/1.1 503 SERVICE UNAVAILABLE"])
    assert world.values(order) == (False, 100, [20, 20])
    world.proxies.arrive(late[0])
    world.proxies.until(lambda event: event.what == "dropped", SECONDS)  # the answer of stock, which reaches no caller
    assert world.values(order) == (False, 100, [18, 20])


def test_a_lost_answer_takes_stock_too(make: Callable[[], World]) -> None:
    """A request has its effect although its caller never learns of it."""
    world = make()
    order = world.order()
    status, messages = world.checkout(order, {3: world.proxies.lose})
    assert (status, messages) == (503, [*CHECKOUT[:3], "order->client HTTP/1.1 503 SERVICE UNAVAILABLE"])
    assert world.values(order) == (False, 100, [18, 20])


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


class Scripted:
    """Proxies whose messages arrive as given: some at first, others when a message has been delivered."""

    def __init__(self, arrivals: dict[int, list[Event]]) -> None:
        self.arrivals, self.released = arrivals, list[int]()
        self.ready = list(arrivals.pop(0, []))

    def hold(self) -> None:
        """Nothing passes anyway."""

    def look(self) -> None:
        """The test says what has arrived."""

    def events(self, seconds: float) -> list[Event]:
        """What has arrived since the last call."""
        found, self.ready = self.ready, []
        return found

    def release(self, message: int) -> None:
        """Deliver a message, and let others arrive."""
        self.released.append(message)
        self.ready = [Event("delivered", message=message), *self.arrivals.pop(message, [])]


@pytest.mark.parametrize("faster", [False, True])
def test_messages_that_arrive_together_have_an_order(faster: bool) -> None:
    """Whichever of two processes is faster, the messages are delivered in the order of names, older ones first."""
    one, two = (1, 2) if faster else (2, 1)
    together = [Event("arrived", "order", "stock", message=one), Event("arrived", "order", "payment", message=two)]
    later = [Event("arrived", "a", "b", message=3)]
    proxies: Any = Scripted({0: sorted(together, key=lambda event: event.message), two: later})
    messages = Schedule(proxies, list).run(lambda: True, SECONDS)
    assert [event.receiver for event in messages] == ["payment", "stock", "b"]
    assert proxies.released == [two, one, 3]
