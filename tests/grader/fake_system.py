"""A run without processes: a right system that answers waves or bytes, in memory or over a socket."""

from __future__ import annotations

import copy
import json
import socket
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import numpy as np
from records import right

from grader.phases import Live
from grader.record import Record
from grader.session import Wish, run_phases
from grader.shop import Clock, Counter, Routes, Wave
from grader.shop.routes import ROUTES
from grader.submission import Submission
from grader.terms import Kind, Limits, Status
from grader.wire.client import Generator
from grader.wire.http import Malformed, read_answer
from grader.wire.jobs import Job, Result

Change = Callable[[Kind, bytes], bytes]
"""Returns the answer to a request of this kind, given the right one."""
EACH = 40_000_000
"""The nanoseconds that each request takes in memory."""
SECONDS = {"contract": 0.01, "duplicates": 2.0, "load": 2.0, "scarcity": 2.0, "faults": 4.0, "speed": 3.0}


def http(status: int, body: bytes) -> bytes:
    """An answer as most servers write it."""
    return b"HTTP/1.1 %d OK\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body


READS = (Kind.FIND_ORDER, Kind.FIND_USER, Kind.FIND_ITEM)
BATCHES = (Kind.BATCH_ORDERS, Kind.BATCH_USERS, Kind.BATCH_ITEMS)
Answer = tuple[int, Any]
Twist = Callable[[Kind, list[str], Callable[[], Answer]], Answer]
"""Given a request and a function that answers it right, the status and the body of the answer."""


class FakeSystem:
    """A right system in a few lines, with a clock of its own.

    A phase can use it as its counter (`send`, `insist`, `wait`), and a socket or a generator in memory asks it for
    bytes (`answer`). ``twist`` is its one mistake; ``behind``: the seconds by which its reads lag; ``change`` may
    change the bytes of its answers, and ``name`` the ids that it gives.
    """

    def __init__(
        self,
        twist: Twist = lambda kind, words, right: right(),
        behind: float = 0.0,
        change: Change = lambda kind, raw: raw,
        name: Callable[[str], Any] = str,
    ) -> None:
        self.now = 0.0
        self.amounts, self.prices, self.orders = dict[str, int](), dict[str, int](), dict[str, dict[str, Any]]()
        self.states: list[tuple[float, Any]] = []
        """What reads have seen since when, if they lag."""
        self._twist, self._behind, self._change, self._name = twist, behind, change, name
        self._real: dict[str, str] = {}
        self._lock = threading.Lock()

    def send(self, wave: Wave) -> Result:
        """Answer a wave. It takes a hundredth of a second, and that of a batch is slow."""
        self.now += 0.3 if wave.kind in BATCHES else 0.01
        said = [self.say(wave.kind, end.decode().split("/")) for end in wave.middles]
        none = np.zeros(len(said), dtype=np.int64)
        status = np.array([code for code, _ in said], np.int16)
        return Result(none, none, status, none.astype(np.uint8), [json.dumps(body).encode() for _, body in said])

    def insist(self, wave: Wave) -> Result:
        """Nothing is shed."""
        return self.send(wave)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def state(self) -> Any:
        """A copy of everything."""
        return copy.deepcopy((self.amounts, self.prices, self.orders))

    def say(self, kind: Kind, words: list[str]) -> Answer:
        """Answer one request, with the mistake."""
        return self._twist(kind, words, lambda: self._right(kind, words))

    def _right(self, kind: Kind, words: list[str]) -> Answer:
        new = self.amounts, self.prices, self.orders
        if kind in READS and self._behind:
            seen = [state for at, state in self.states if at <= self.now - self._behind] or [({}, {}, {})]
            self.amounts, self.prices, self.orders = seen[-1]
        try:
            return 200, self.do(kind, words)
        except (KeyError, ValueError) as error:
            return 404, {"error": str(error)}
        finally:
            self.amounts, self.prices, self.orders = new
            if kind not in READS and self._behind:
                self.states.append((self.now, self.state()))

    def do(self, kind: Kind, words: list[str]) -> Any:
        """Do what a request asks for. Returns the body of the answer."""
        amounts, orders, new = self.amounts, self.orders, f"n{len(self.amounts) + len(self.orders)}"
        if kind in (Kind.BATCH_USERS, Kind.BATCH_ITEMS):
            many = [f"{'u' if kind == Kind.BATCH_USERS else 'i'}{n}" for n in range(int(words[0]))]
            amounts.update(dict.fromkeys(many, int(words[1])))
            self.prices.update(dict.fromkeys(many, int(words[-1])))
        elif kind == Kind.BATCH_ORDERS:
            for n in range(int(words[0])):
                orders[str(n)] = {"user": str(n), "lines": [[str(n), 1, int(words[3])]], "paid": False}
        elif kind in (Kind.CREATE_USER, Kind.CREATE_ITEM):
            of, field = ("u", "user_id") if kind == Kind.CREATE_USER else ("i", "item_id")
            amounts[of + new], self.prices[of + new] = 0, int(words[0] or 0)
            return {field: new}
        elif kind == Kind.CREATE_ORDER:
            orders[new] = {"user": words[0], "lines": [], "paid": False}
            return {"order_id": new}
        elif kind == Kind.ADD_ITEM:
            orders[words[0]]["lines"].append([words[1], int(words[2]), self.prices["i" + words[1]]])
        elif kind == Kind.FIND_ORDER:
            order = orders[words[0]]
            items, cost = [line[:2] for line in order["lines"]], sum(q * price for _, q, price in order["lines"])
            return {"items": items, "paid": order["paid"], "user_id": order["user"], "total_cost": cost}
        elif kind == Kind.FIND_USER:
            return {"credit": amounts["u" + words[0]]}
        elif kind == Kind.FIND_ITEM:
            return {"stock": amounts["i" + words[0]], "price": self.prices["i" + words[0]]}
        elif kind == Kind.CHECKOUT:
            order = orders[words[0]]
            if not order["paid"]:
                cost = sum(q * price for _, q, price in order["lines"])
                self.apply([("u" + order["user"], -cost), *(("i" + item, -q) for item, q, _ in order["lines"])])
                order["paid"] = True
        else:
            of = "u" if kind in (Kind.ADD_FUNDS, Kind.PAY) else "i"
            sign = 1 if kind in (Kind.ADD_FUNDS, Kind.ADD_STOCK) else -1
            self.apply([(of + words[0], sign * int(words[1]))])
        return {}

    def apply(self, wants: list[tuple[str, int]]) -> None:
        """Add amounts, or raise ValueError if one would be negative."""
        after = dict[str, int]()
        for name, amount in wants:
            after[name] = after.get(name, self.amounts[name]) + amount
        if min(after.values()) < 0:
            raise ValueError("not enough")
        self.amounts.update(after)

    def answer(self, request: bytes) -> bytes:
        """Return the answer to a request."""
        method, path = request.decode().split(" ", 2)[:2]
        _, service, *words = path.split("/")
        found = [
            (kind, len(route.strip("/").split("/")))
            for kind, (of, verb, route) in ROUTES.items()
            if of == service and verb == method and f"/{'/'.join(words)}/".startswith(f"/{route.strip('/')}/")
        ]
        kind, many = max(found, key=lambda one: one[1])
        with self._lock:
            given = [self._real.get(unquote(word), unquote(word)) for word in words[many:]] or [""]
            status, body = self.say(kind, given)
            for field in ("order_id", "user_id", "item_id"):
                if field in body:
                    body = {**body, field: self._new(body[field])}
            if "items" in body:
                body = {**body, "items": [[self._new(item), quantity] for item, quantity in body["items"]]}
        return self._change(kind, http(status, json.dumps(body).encode()))

    def _new(self, real: str) -> Any:
        name = self._name(real)
        self._real[str(name)] = real
        return name

    def serve(self, connection: socket.socket, number: int) -> None:
        """Answer the requests of one connection."""
        while request := connection.recv(65_536):
            connection.sendall(self.answer(request))


def about(asked: tuple[str, ...], limits: Limits) -> Record:
    """An empty record of a run."""
    record = Record()
    record.about.update({**right(()).about, "asked": list(asked), "snapshots": []})
    record.about["limits"].update(vars(limits))
    return record


def routes(port: int = 1) -> Routes:
    """The routes of a system."""
    return Routes({name: f"http://127.0.0.1:{port}/{name}" for name in ("order", "payment", "stock")})


class _Memory:
    """A generator without a network. A request without an answer is a timeout."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self.now, self._answer = 10**9, answer
        self._result: Result | None = None

    def start(self, job: Job) -> None:
        """Answer all requests."""
        n = len(job.middles)
        turns = np.arange(n, dtype=np.int64) // job.connections
        sent = job.start + (job.due if job.due.any() else turns * EACH)
        done, status, bodies = sent + EACH, np.zeros(n, np.int16), [b""] * n
        for i, (shape, end) in enumerate(zip(job.shape, job.middles, strict=True)):
            form, answer = job.shapes[int(shape)], None
            raw = self._answer(form.before + end + form.after)
            try:
                answer = read_answer(raw, closed=True)
                status[i] = answer.status if answer else Status.RESET if raw else Status.TIMEOUT
            except Malformed:
                status[i] = Status.GARBAGE
            bodies[i] = answer.body if answer and job.bodies else b""
            done[i] += 0 if raw else job.timeout
        self.now = max(self.now, int(done.max(initial=0)))
        none = np.zeros(n, np.uint8)
        self._result = Result(sent, done, status, none, bodies if job.bodies else [], cpu=0.01)

    def poll(self, seconds: float) -> Result | None:
        """Return the result."""
        return self._result

    def ask(self, what: object) -> bool:
        """There is no connection to close."""
        return True


class _Clock(Clock):
    """The time of a generator without a network."""

    def __init__(self, memory: _Memory) -> None:
        super().__init__()
        self._memory = memory

    def begin(self) -> None:
        """It has begun."""

    def now(self) -> int:
        """The time at which the last request has ended."""
        return self._memory.now


class _Counter(Counter):
    def wait(self, seconds: float) -> None:
        self._generator.now += max(0, int(seconds * 1e9))  # type: ignore[attr-defined]


def in_memory(system: FakeSystem, phases: tuple[str, ...]) -> Record:
    """Run phases as a session does. Returns the record."""
    limits = Limits(convergence=5.0, still=2.0, timeout=1.0, budget=30.0, top_rate=100)
    record, memory = about(phases, limits), _Memory(system.answer)
    generator: Any = memory
    counter = _Counter(record, generator, routes(), limits, _Clock(memory))
    names = ("aim", "freeze", "pause", "resume", "kill", "restart", "wait_ready")
    does = {**dict.fromkeys(names, lambda *of: None), "cpu": lambda: 0.0}
    services: Any = SimpleNamespace(names=["order", "stock"], can_pause=True, **does)
    live = Live(record, counter, limits, 1, 0, SECONDS, lambda said: None, services)
    live.clock = lambda: memory.now / 1e9  # type: ignore[method-assign]
    run(live, phases)
    return record


def over_sockets(generator: Generator, port: int, timeout: float = 20.0) -> Record:
    """Run the contract phase on a system that listens on a port. Returns the record."""
    limits = Limits(convergence=0.0, still=0.0, timeout=timeout)
    record = about(("contract",), limits)
    counter = Counter(record, generator, routes(port), limits)
    run(Live(record, counter, limits, 1, 0, SECONDS, lambda said: None), ("contract",))
    return record


def run(live: Live, phases: tuple[str, ...]) -> None:
    """Run phases as a session does."""
    run_phases(Wish(Submission("team", None, {}), phases, live.limits, 1, 0, "checkout team", "quick"), live)
