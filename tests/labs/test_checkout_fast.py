"""labs/checkout/fast: its three services in one process, with crashes and messages in any order; and its parts."""

from __future__ import annotations

import contextlib
import importlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the system needs epoll and fdatasync: run this on Linux"
)

FOLDER = Path(__file__).resolve().parents[2] / "labs" / "checkout" / "fast"


def modules() -> dict[str, Any]:
    """The modules of the folder. Their short names do not stay in sys.modules."""
    names = [path.stem for path in FOLDER.glob("*.py")]
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.path.insert(0, str(FOLDER))
    try:
        return {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(FOLDER))
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(before)


FAST = modules()
ORDER, STOCK, PAYMENT = range(3)
"""The services; a ledger's port is its number."""


class End:
    """One end of a connection, with the lines that have arrived. None: the other end is closed."""

    def __init__(self) -> None:
        self.lines: list[bytes | None] = []
        self.other: End | None = None
        self.link: Link | None = None


class Link:
    """Like wire.Link, but a test decides when a line arrives."""

    def __init__(self, node: Node, end: End, told: Callable[[bytes], None], lost: Callable[[], None] = lambda: None):
        self.node, self.end, self.told, self.lost, self.open = node, end, told, lost, True
        end.link = self
        node.ends_of_links.append(end)

    @classmethod
    def connect(cls, node: Node, port: int, first: bytes, told: Any, lost: Any) -> Link:
        """Connect two ends; the ledger meets the coordinator when the first line arrives."""
        ledger = node.world.nodes[port]
        if ledger.service is None:
            raise OSError("nobody listens")
        ours, theirs = End(), End()
        ours.other, theirs.other = theirs, ours
        ledger.arrived.append(theirs)
        return cls(node, ours, told, lost)

    def write(self, data: bytes) -> None:
        """The other end has it, unless it is closed."""
        if self.open and self.end.other is not None:
            self.end.other.lines.append(data.rstrip(b"\n"))

    def send(self, *message: Any) -> None:
        """As wire.Link encodes it."""
        self.write(FAST["wire"].json.dumps(message).encode())

    def receive(self, data: bytes) -> None:
        """Nothing was sent before the connection was a link."""

    def close(self) -> None:
        """Close both ends."""
        if self.open:
            self.open = False
            if self.end.other is not None:
                self.end.other.lines.append(None)
            self.lost()


class Asker:
    """A client: the answers that it got, and whether it may still get one."""

    def __init__(self, end: End | None = None) -> None:
        self.end, self.answers, self.lost = end, list[bytes](), False

    def answer(self, raw: bytes) -> None:
        """An answer of a service that has been killed since does not arrive."""
        assert not self.lost
        self.answers.append(raw)

    def detach(self) -> tuple[End | None, bytes]:
        """It is a coordinator."""
        return self.end, b""


class Node:
    """A service and its loop. It has the methods of loop.Loop that the services call."""

    def __init__(self, world: World, number: int, folder: Path) -> None:
        self.world, self.number, self.folder = world, number, folder
        folder.mkdir()
        self.service: Any = None
        self.start()

    def start(self) -> None:
        """Start the service on its folder."""
        self.ends: list[Callable[[], None]] = []
        self.timers: list[Callable[[], None]] = []
        self.arrived: list[End] = []
        self.ends_of_links: list[End] = []
        if self.number == ORDER:
            self.service = FAST["order"].Orders(self, self.folder, (STOCK, PAYMENT))
        else:
            self.service = FAST["ledger"].Ledger(self, self.folder)

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        """Call it in a later turn."""
        self.timers.append(what)

    def turn(self, most: int, timers: bool, ends: bool = True) -> None:
        """Handle at most ``most`` lines of each connection, then timers, then the ends of a turn."""
        arrived, self.arrived = self.arrived, []
        for end in arrived:
            self.service.meet(Asker(end))
        for end in list(self.ends_of_links):
            for _ in range(most):
                if end.link is None or not end.lines or not end.link.open:
                    break
                line = end.lines.pop(0)
                if line is None:
                    end.link.close()
                else:
                    end.link.told(line)
        due, self.timers = (self.timers, []) if timers else ([], self.timers)
        for what in due:
            what()
        for each in self.ends if ends else ():
            each()

    def kill(self, torn: bool, reset: bool) -> None:
        """kill -9. ``torn``: a part of a line is in the log. ``reset``: what it has sent is lost, too."""
        if self.service is None:
            return
        os.close(self.service.journal._file)
        if torn:
            with (self.folder / "log").open("ab") as log:
                log.write(b'["epo')
        for end in [*self.ends_of_links, *self.arrived]:
            if end.other is not None:
                if reset:
                    end.other.lines.clear()
                end.other.lines.append(None)
            if end.link is not None:
                end.link.open = False
        if self.number == ORDER:
            for askers in self.service.waiting.values():
                for asker in askers:
                    asker.lost = True
        self.service = None

    def busy(self) -> bool:
        """Whether a turn would do anything."""
        links = [end for end in self.ends_of_links if end.link is not None and end.link.open]
        return bool(self.timers or self.arrived or any(end.lines for end in links))


ITEMS, USERS, GOODS, MONEY = ("a", "b"), ("u", "v"), 3, 5
Lines = list[tuple[str, int]]


class World:
    """The three services, and orders of two users for two items that are scarce."""

    def __init__(self, folder: Path, orders: list[tuple[str, Lines]]) -> None:
        self.orders, self.askers = orders, [list[Asker]() for _ in orders]
        self.nodes: list[Node] = []
        for number in (STOCK, PAYMENT):
            self.nodes.append(Node(self, number, folder / str(number)))
        self.nodes.insert(0, Node.__new__(Node))
        self.nodes[ORDER].__init__(self, ORDER, folder / str(ORDER))  # type: ignore[misc]  # it connects to the others
        for number, names, amount in ((STOCK, ITEMS, GOODS), (PAYMENT, USERS, MONEY)):
            for name in names:
                self.nodes[number].service.change(Asker(), b"", "new", name, 1)
                self.nodes[number].service.change(Asker(), b"", "add", name, amount)
        for name, (user, lines) in enumerate(orders):
            self.nodes[ORDER].service.change(Asker(), b"", "order", str(name), user)
            for line in lines:
                self.nodes[ORDER].service.change(Asker(), b"", "line", str(name), *line, 1)
        self.settle()

    def check_out(self, order: int) -> None:
        """A client sends a checkout, if the order service is there."""
        if self.nodes[ORDER].service is not None:
            asker = Asker()
            self.askers[order].append(asker)
            self.nodes[ORDER].service.serve(asker, b"POST /checkout/%d" % order)

    def settle(self) -> None:
        """Start what was killed, and let everything happen that must happen without a client."""
        for node in self.nodes:
            if node.service is None:
                node.start()
        for _ in range(100):
            for node in self.nodes:
                node.turn(9, timers=True)
            if not any(node.busy() for node in self.nodes):
                return
        raise AssertionError("the services do not come to rest")

    def close(self) -> None:
        """Close the logs."""
        for node in self.nodes:
            node.kill(torn=False, reset=False)

    def check(self) -> None:
        """Each order is paid everywhere or nowhere, as its answers promise; the balances are what is left."""
        service = self.nodes[ORDER].service
        left = {**dict.fromkeys(ITEMS, GOODS), **dict.fromkeys(USERS, MONEY)}
        for name, (user, lines) in enumerate(self.orders):
            paid = service.orders[str(name)].paid
            for item, quantity in lines if paid else ():
                left[item] -= quantity
                left[user] -= quantity
            askers = self.askers[name]
            assert all(len(asker.answers) == 1 for asker in askers if not asker.lost)
            said = {raw for asker in askers for raw in asker.answers}
            assert said <= {FAST["wire"].DONE, FAST["wire"].REFUSED}
            assert paid or FAST["wire"].DONE not in said
            assert not paid or FAST["wire"].DONE in said or any(asker.lost for asker in askers)
        found = {**self.nodes[STOCK].service.balances, **self.nodes[PAYMENT].service.balances}
        assert found == left and min(found.values()) >= 0
        assert not service.waiting


@contextlib.contextmanager
def world(orders: list[tuple[str, Lines]]) -> Iterator[World]:
    """A world whose logs are written but not synced."""
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(FAST["coordinator"], "Link", Link),
        mock.patch.object(FAST["ledger"], "Link", Link),
        mock.patch.object(os, "fsync"),
        mock.patch.object(os, "fdatasync"),
    ):
        found = World(Path(folder), orders)
        try:
            yield found
        finally:
            found.close()


LINES = st.lists(st.tuples(st.sampled_from(ITEMS), st.integers(1, 2)), min_size=1, max_size=2)
ORDERS = st.lists(st.tuples(st.sampled_from(USERS), LINES), min_size=2, max_size=4)
KILL = st.sampled_from(["no", "no", "no", "before the sync", "after the turn"])
CHECKOUT = st.sampled_from([None, None, None, 0, 0, 1, 2, 3])
STEP = st.tuples(CHECKOUT, st.integers(0, 5), st.integers(1, 2), KILL, st.booleans(), st.booleans())
"""The order that a client checks out; which of the services that have something to do; how many lines it handles;
whether it is killed, and how."""


@settings(max_examples=300, deadline=None)
@given(ORDERS, st.lists(STEP, min_size=5, max_size=40))
def test_an_order_is_paid_everywhere_or_nowhere(orders: list[tuple[str, Lines]], steps: list[tuple[Any, ...]]) -> None:
    """Whatever is killed, and whenever: answers and balances agree once all services are back, without a retry."""
    with world(orders) as found:
        for order, which, most, kill, torn, reset in steps:
            if order is not None:
                found.check_out(order % len(orders))
            able = [node for node in found.nodes if node.service is None or node.busy()]
            if not able:
                continue
            node = able[which % len(able)]
            if node.service is None:
                node.start()
                continue
            node.turn(most, timers=True, ends=kill != "before the sync")
            if kill != "no":
                node.kill(torn, reset)
        found.settle()
        found.check()
        for name in range(len(orders)):
            found.check_out(name)
        found.settle()
        found.check()


def test_a_refused_order_leaves_no_trace_when_it_is_answered() -> None:
    """The answer to a refused order comes after both ledgers have given back; that of a paid one after the commit."""
    with world([("u", [("a", 1)]), ("u", [("b", 1), ("a", 3)])]) as found:
        found.check_out(0)
        found.check_out(1)
        (first,), (second,) = found.askers
        order, *ledgers = found.nodes
        while not second.answers:
            order.turn(9, timers=True)
            if not second.answers:
                assert bool(first.answers) == order.service.orders["0"].paid
                for ledger in ledgers:
                    ledger.turn(9, timers=True)
        assert [node.service.balances for node in ledgers] == [{"a": 2, "b": 3}, {"u": 4, "v": 5}]


def test_a_vote_that_is_reported_again_counts_once() -> None:
    """A ledger restarts after its vote, and reports it in the turn in which the other one votes."""
    with world([("u", [("a", 1)]), ("v", [("b", 1)])]) as found:
        order, stock, payment = found.nodes
        found.check_out(0)
        order.turn(9, timers=True)
        stock.turn(9, timers=True)
        order.turn(9, timers=True)
        stock.kill(torn=False, reset=False)
        stock.start()
        for node in (order, stock, payment, order):
            node.turn(9, timers=True)
        found.settle()
        found.check()
        assert order.service.orders["0"].paid


@pytest.mark.parametrize("text", ["", "-1", "+1", "1_000", "1.0", " 1", "²", "٣", "9007199254740993", "1" * 5000])
def test_a_number_in_a_path(text: str) -> None:
    """Only ASCII digits up to 2**53 are a number."""
    with pytest.raises(ValueError, match="whole number"):
        FAST["wire"].amount_in(text)
    assert FAST["wire"].amount_in(str(1 << 53)) == 1 << 53


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[int]:
    """The port of a ledger in a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    with subprocess.Popen([sys.executable, FOLDER / "ledger.py", str(port), tmp_path]) as process:
        try:
            for _ in range(3000):
                with contextlib.suppress(ConnectionRefusedError):
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                time.sleep(0.01)
            yield port
        finally:
            process.kill()


def exchange(port: int, *parts: bytes) -> bytes:
    """Everything that the ledger answers to these bytes until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
        for part in parts:
            sock.sendall(part)
        answers = b""
        while data := sock.recv(1 << 16):
            answers += data
    return answers


def test_requests_arrive_together_and_in_pieces(ledger: int, tmp_path: Path) -> None:
    """Pipelined requests are answered in order; a body is skipped; the connection closes when the client wants it."""
    post, end = b"POST /batch_init/2/7/5 HTTP/1.1\r\ncontent-length: 4\r\n\r\n{\r\n}", b" HTTP/1.1\r\n\r\n"
    last = b"GET /find/1 HTTP/1.1\r\nConnection: close\r\n\r\n"
    answers = exchange(ledger, post + b"POST /subtract/1/3" + end + b"GET /fi", b"nd/1" + end + last)
    bodies = [text.partition(b"\r\n\r\n")[2] for text in answers.split(b"HTTP/1.1 200 OK\r\n")[1:]]
    assert bodies == [b'{"msg": "done"}', b'{"done": true}', *[b'{"stock": 4, "price": 5}'] * 2]


def test_bad_requests_change_nothing(ledger: int, tmp_path: Path) -> None:
    """400 for each, without a line in the log; too many bytes, or what is not HTTP/1.1, end the connection."""
    bad = [
        "POST /add/0/-1",
        "POST /add/0/1_0",
        "POST /add/none/1",
        "GET /add/0/1",
        "POST /add/0",
        "POST /add/0/1/2",
        "x",
    ]
    bad += [
        "POST /batch_init/1",
        "POST /batch_init/1/2/3/4",
        "POST /batch_init/10000001/1",
        "POST /item/create/",
        "GET /find/\udcff",
    ]
    for each in bad:
        answers = exchange(ledger, each.encode(errors="surrogateescape") + b" HTTP/1.0\r\n\r\n")
        assert answers.startswith(b"HTTP/1.1 400 Bad Request\r\n"), each
    with contextlib.suppress(ConnectionError):  # the rest of what was sent is not read
        assert exchange(ledger, b"GET /find/0 HTTP/1.1\r\nx: " + b"x" * 100_000) == b""
    assert (tmp_path / "log").read_bytes() == b""


class Ends:
    """A loop that only has the ends of turns."""

    def __init__(self) -> None:
        self.ends: list[Callable[[], None]] = []


def test_a_torn_line_is_removed_and_a_damaged_one_is_not(tmp_path: Path) -> None:
    """A log is read up to its torn end, and written on; a bad line before the end stops the service, by its offset."""
    path, journal = tmp_path / "log", FAST["journal"].Journal
    path.write_bytes(b'["a",1]\n["b",2]\n["c",')
    records: list[tuple[Any, ...]] = []
    first = journal(Ends(), tmp_path, lambda *record: records.append(record))
    assert records == [("a", 1), ("b", 2)]
    with pytest.raises(SystemExit, match="in use by another process"):
        journal(Ends(), tmp_path, lambda *record: None)
    told: list[str] = []
    first.then(lambda: told.append("nothing to wait for"))
    first.write(["d", 4], lambda: told.append("written"))
    first.then(lambda: told.append("read"))
    assert told == ["nothing to wait for"] and path.read_bytes() == b'["a",1]\n["b",2]\n'
    first.flush()
    assert told[1:] == ["written", "read"] and path.read_bytes() == b'["a",1]\n["b",2]\n["d",4]\n'
    os.close(first._file)
    path.write_bytes(b'["a",1]\n["b",\n["d",4]\n')
    with pytest.raises(SystemExit, match="the line at byte 8 is damaged"):
        journal(Ends(), tmp_path, lambda *record: None)
    assert path.read_bytes() == b'["a",1]\n["b",\n["d",4]\n'
