"""Purchases on Spark by HTTP, without Spark: its micro-batches run here, in any order, again, and on lost memory.

The driver is killed at every step between a request and its answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import served
from carriers import cell
from machine import Killed, Machine, batches, stepping
from purchases import ALONE_SOURCE, BALANCE, ITEMS, PRICE, SOURCE, STOCK, USERS, drawn, path_of, wrong
from pyspark.sql import SparkSession
from served import COUNTERS, SHOP, Client, counters
from test_transactions import SHOP as TRANSACTIONS

from sharedstate_lite.entities import AskMessage, PlainStore, Program, Reference, log, on_spark, serve, serve_on_spark
from sharedstate_lite.entities.__main__ import main
from sharedstate_lite.entities.bins import EntityBin, bin_of
from sharedstate_lite.entities.fetched import FetchingFront
from sharedstate_lite.entities.on_spark import OrderedBin, SparkEntities, entities_in
from sharedstate_lite.entities.serve import EntityService
from sharedstate_lite.entities.serve_on_spark import SparkService
from sharedstate_lite.errors import CheckpointError, Error
from sharedstate_lite.spark.rounds import inbox as inboxes
from sharedstate_lite.spark.rounds.inbox import Inbox
from sharedstate_lite.spark.rounds.query import Query
from sharedstate_lite.spark.session import checks

PROGRAM: Program = cell(SOURCE)["purchases"]
ALONE: Program = cell(ALONE_SOURCE)["purchases"]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine on which the front is started."""
    return on_a_machine(Random(0), monkeypatch)


def on_a_machine(rng: Random, patch: pytest.MonkeyPatch) -> Machine:
    """A machine, in place of Spark."""
    made = Machine(rng)
    patch.setattr(on_spark, "Query", batches(made))
    patch.setattr(on_spark, "usable", lambda session, what: session)
    patch.setattr(on_spark, "stateful", lambda *_: None)
    patch.setattr(on_spark, "partitions", lambda session, bins: bins)
    patch.setattr(serve_on_spark, "QUIET_SECONDS", 0)
    patch.setattr(log, "_sync", lambda file: None)
    patch.setattr(log.RequestLog, "append", stepping(made, log.RequestLog.append))
    patch.setattr(log.RequestLog, "_create", stepping(made, log.RequestLog._create))
    patch.setattr(Inbox, "_log", stepping(made, Inbox._log))
    patch.setattr(Inbox, "_publish", stepping(made, Inbox._publish))
    patch.setattr(SparkService, "_raw", stepping(made, SparkService._raw))
    return made


def start(folder: Path, bins: int = 1, program: Program = PROGRAM, session: Any = None) -> SparkEntities:
    """A front on a folder."""
    return SparkEntities(program, folder, bins, session or SimpleNamespace())


def ask(front: SparkEntities | EntityService, *requests: str) -> list[Any]:
    """Send requests at once, ``METHOD path [key]`` each. Return the answers, in their order; None if there is none."""
    clients = [Client() for _ in requests]
    if isinstance(front, EntityService):
        return served.ask(front, *requests)

    async def run() -> None:
        service = SparkService(front)
        service.run()
        for client, request in zip(clients, requests, strict=True):
            method, where, key = [*request.split(" ", 2), ""][:3]
            service.request(client, method.encode(), where.encode(), key)  # type: ignore[arg-type]
        if service._running:
            await service._running
        assert service.waiting == sum(not client.events for client in clients) and not front.unfinished

    with contextlib.suppress(Killed):
        asyncio.run(run())
    return [client.events[0] if client.events else None for client in clients]


def state(machine: Machine) -> dict[Any, Any]:
    """The entities after the last micro-batch."""
    out: dict[Any, Any] = {}
    for store in machine.states[max(machine.states)].values():
        out |= entities_in({name: blob for (part, name), blob in store.runs.items() if part == "entities"})
    return out


def comparable(answer: Any) -> Any:
    """An answer, or an exception as its class and text."""
    return (type(answer), str(answer)) if isinstance(answer, Exception) else answer


MAKE = {"items": f"/items/{ITEMS}/{STOCK}/{PRICE}", "users": f"/users/{USERS}/{BALANCE}"}


def purchases(seed: int, bins: int, deaths: int = 6, program: Program = PROGRAM) -> list[str]:
    """Send purchases until each is answered, on a machine on which drivers die. Return what does not add up."""
    rng = Random(seed)
    wanted, said, out = drawn(seed, 30), dict[str, Any](), list[str]()

    def tell(front: SparkEntities, machine: Machine, paths: dict[str, str]) -> None:
        for key, end in zip(paths, ask(front, *(f"POST {path} {key}" for key, path in paths.items())), strict=True):
            if end is None and not machine.dead:
                out.append(f"{key} has no answer")
            if end and said.setdefault(key, end) != end:
                out.append(f"{key}: {end} after {said[key]}")

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        machine = on_a_machine(rng, patch)
        while not out:
            machine.left, deaths, machine.dead = rng.randrange(1, 80) if deaths else 0, max(0, deaths - 1), False
            with contextlib.suppress(Killed), start(Path(folder), bins, program) as front:
                tell(front, machine, MAKE)
                while not (machine.dead or out):
                    open_ = [key for key in wanted if key not in said]
                    now = rng.sample(open_, min(len(open_), 15)) + rng.sample(
                        sorted(said.keys() - MAKE), len(said) // 8
                    )
                    tell(front, machine, {key: path_of(wanted[key]) for key in now})
                    if not open_:
                        break
            if not machine.dead:
                break
        return out or wrong(wanted, said, state(machine))


@pytest.mark.parametrize("bins", [1, 3])
def test_one_answer_and_one_effect(bins: int) -> None:
    """Whenever drivers die, whatever order messages come in, and whatever workers have forgotten."""
    for seed in range(6):
        assert purchases(seed, bins) == [], seed
        assert purchases(seed, bins, program=ALONE) == [], seed


def test_mutants(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages in any order; an input file that is replaced; a key that is not recorded; an answer that is not; the
    front of transactions forgotten by a start; entities that are not sent back, or fetched before other messages."""

    def replaced(inbox: Inbox, committed: int) -> None:
        check(inbox, committed)
        for entry in inbox.entries[committed:]:
            inboxes.write(inboxes.to_table([]), inbox.path / f"{entry.number:08d}.parquet")

    def keyless(*args: Any) -> Any:
        return (*accept(*args)[:2], "")

    def unrecorded(front: SparkEntities, ends: Any) -> None:
        list(ends)

    check, accept = Inbox.check, serve.accept
    mutants: list[tuple[Any, str, Any, Program]] = [
        (OrderedBin, "handle", EntityBin.handle, PROGRAM),
        (Inbox, "check", replaced, PROGRAM),
        (serve_on_spark, "accept", keyless, PROGRAM),
        (SparkEntities, "_record", unrecorded, PROGRAM),
        (FetchingFront, "restore", lambda *_: None, ALONE),
        (FetchingFront, "put", lambda *_: [], ALONE),
    ]
    for where, name, mutant, program in mutants:
        with monkeypatch.context() as patch:
            patch.setattr(where, name, mutant)
            assert any(purchases(seed, 3, program=program) for seed in range(12)), name


def test_answers_are_those_of_the_plain_server(machine: Machine, tmp_path: Path) -> None:
    """With one bin, one request after the other: also those that are undone, and reads that would change something."""
    source = COUNTERS.replace("    def add(", "    @transactional\n    def add(").replace(
        "    def move(", "    @transactional\n    def move("
    )
    program = counters(source.replace("many, new", "many, new, transactional"))
    rng, plain = Random(1), EntityService(program, tmp_path / "plain")
    with start(tmp_path / "spark", 1, program) as front:
        for _ in range(60):
            a, b, n, key = (rng.randrange(4) for _ in range(4))
            request = rng.choice(
                [f"POST /add/{a}/{9 * n} k{key}{n}", f"POST /move/{a}/{b}/{n}", f"POST /move/{a}/{b}/{n} m{key}"]
                + [f"POST /many/{a}/{40 * n}", f"POST /many/2/{n} l{key}", f"GET /find/{a}", f"GET /peek/{a}"]
                + [f"POST /new/{n} {'k' * 257}", "GET /nothing", f"POST /add/{a}/-1"]
            )
            ((status, value),) = ask(plain, request)
            if status == 422:
                value["error"] = ask(front, request)[0][1]["error"]
                assert value["error"].startswith("this Idempotency-Key was used for Counter['")
            assert ask(front, request) == [(status, value)], request
        found = {row[1]: row[2]["n"] for row in plain.rows() if row[0]}
        assert {key: each["n"] for (_, key), each in state(machine).items()} == found
    plain.close()


def test_several_bins(machine: Machine, tmp_path: Path) -> None:
    """Hops are micro-batches. A read that changes another entity is refused, and does not. A new key is drawn once."""
    program = counters(COUNTERS.replace("    def find(self):", METHODS).replace('    "GET /find', ROUTES))
    with start(tmp_path, 8, program) as front:
        assert ask(front, "POST /many/9/0", "POST /many/0/0") == [(200, {"msg": f"{n} of Counter"}) for n in (9, 0)]
        assert (front.rounds, len(state(machine))) == (1, 9)
        assert ask(front, "POST /move/0/1/0", "GET /find/1") == [(500, DIVIDED), (200, {"n": 0, "words": ["a", 1]})]
        assert front.rounds == 4
        assert ask(front, "GET /look/0/1", "GET /change/0/1", "GET /find/1") == [
            (200, 0),
            (500, {"error": "TypeError: a read changed Counter 1; use a POST route"}),
            (200, {"n": 0, "words": ["a", 1]}),
        ]
        first = ask(front, "POST /new/1 a", "POST /new/1 b", "POST /new/1", "POST /new/1", "POST /new/1 a")
        assert [status for status, _ in first] == [200] * 5 and len({each["id"] for _, each in first}) == 4
        assert ask(front, "POST /new/1 a", "POST /new/1 b") == first[:2]
        assert ask(front, "POST /new/2 a")[0][0] == 422


METHODS = """    def look(self, other: Counter):
        return other.n
    def change(self, other: Counter):
        other.add(1)
    def find(self):"""
ROUTES = """    "GET /look/{counter}/{other}": Counter.look,
    "GET /change/{counter}/{other}": Counter.change,
    "GET /find"""
DIVIDED = {"error": "ZeroDivisionError: integer division or modulo by zero"}


def test_the_folder_stays_small(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that no start needs are deleted. The oldest answers are forgotten, the others are there after a start."""
    monkeypatch.setattr(on_spark, "LOG_SIZE", 2_000)
    monkeypatch.setattr(on_spark, "MOST_KEYS", 40)
    with start(tmp_path) as front:
        ask(front, *(f"POST {path} {key}" for key, path in MAKE.items()))
        said = [ask(front, f"POST /buy/{n % USERS}/{n % ITEMS}/1 k{n}", "GET /user/0") for n in range(80)]
        for folder, most in (("query/in", 3), ("query/out", 2), ("query/staged", 0), ("requests", 4)):
            assert len(list((tmp_path / folder).iterdir())) <= most, folder
        assert front._log.number > 4
        assert len(front.questions) == len(front._ends) == 40
        assert sum(path.stat().st_size for path in (tmp_path / "requests").iterdir()) < 30_000
    for _ in range(2):
        with start(tmp_path) as front:
            assert [ask(front, f"POST /buy/{n % USERS}/{n % ITEMS}/1 k{n}")[0] for n in range(40, 80)] == [
                each[0] for each in said[40:]
            ]
            assert front.rounds == 81


class _Session(SparkSession):
    """A session without a JVM, with another state store."""

    def __init__(self) -> None:
        self._sc = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False)))
        self.conf = SimpleNamespace(get=lambda name: "HDFSBackedStateStoreProvider")


class _Connect:
    __module__ = "pyspark.sql.connect.session"


def test_what_is_refused(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that do not fit, another program's folder, lost and damaged files: by name, and nothing is changed."""
    with start(tmp_path / "a") as front:
        ask(front, *(f"POST {path} {key}" for key, path in MAKE.items()))
    for session, folder, program, text in (
        (_Session(), "new", PROGRAM, "keeps its state in RocksDB, but this Spark session uses HDFSBacked"),
        (_Connect(), "new", PROGRAM, "Spark Connect is not supported"),
        (object(), "new", PROGRAM, "is not a Spark session"),
        (_Session(), "a", counters(), "the program of this folder is"),
    ):
        with monkeypatch.context() as patch, pytest.raises(Error, match=text):
            patch.setattr(on_spark, "usable", checks.usable)
            patch.setattr(on_spark, "stateful", checks.stateful)
            start(tmp_path / folder, 1, program, session)
    assert [path.name for path in (tmp_path / "new").iterdir()] == [".lock"]
    machine.left = 11  # the file of the next micro-batch is logged, and its rows were not processed
    with contextlib.suppress(Killed), start(tmp_path / "a") as front:
        assert ask(front, "POST /buy/0/0/1 k") == [None]
    (file,) = (tmp_path / "a" / "query" / "in").glob("*1.parquet")
    data = file.read_bytes()
    file.unlink()
    with pytest.raises(CheckpointError, match="the input file of epoch 2 is lost"):
        start(tmp_path / "a")
    file.write_bytes(data[:-1])
    with pytest.raises(CheckpointError, match="the input file of epoch 2 was changed"):
        start(tmp_path / "a")
    file.write_bytes(data)
    with start(tmp_path / "a") as front:
        assert ask(front, "POST /buy/0/0/1 k") == [(200, {"cost": PRICE})] and front.rounds == 2
    newest = max((tmp_path / "a" / "requests").glob("log.*"), key=lambda path: int(path.suffix[1:]))
    newest.write_bytes(b"x" + newest.read_bytes())
    with pytest.raises(CheckpointError, match="is damaged"):
        start(tmp_path / "a")


def test_a_micro_batch_that_fails_ends_the_process(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The process exits with status 70 without an answer, and the next start continues."""

    def fail(*_: Any) -> None:
        raise Error("the query on Spark failed")

    def end(status: int) -> None:
        raise Killed(status)

    with monkeypatch.context() as patch, start(tmp_path) as front:
        patch.setattr(Query, "run", fail)
        patch.setattr("os._exit", end)
        assert ask(front, f"POST {MAKE['users']} users") == [None]
        assert "the query on Spark failed" in (err := capsys.readouterr().err)
        assert "the micro-batch failed, so this process exits; the next start continues" in err
    with start(tmp_path) as front:
        assert ask(front, f"POST {MAKE['users']} users") == [(200, {"msg": f"{USERS} of User"})] and front.rounds == 1


def test_the_command_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Options of the other carrier."""
    words = ["serve", str(SHOP), "--port", "0", "--data", str(tmp_path / "data")]
    for more in (["--bins", "2"], ["--spark", "--migrate"]):
        with pytest.raises(SystemExit):
            main([*words, *more])
        assert "--bins is an option of --spark; --migrate is not" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def transactions() -> tuple[Program, list[Reference], list[Reference], list[AskMessage]]:
    """The program of transactions, four items and four users of it, and the requests that create them with 5 each."""
    scope = cell(TRANSACTIONS)
    items, users = ([Reference(cls, f"{cls} {n}") for n in range(4)] for cls in ("Item", "User"))
    made = [AskMessage(n, who, "__init__", (who.key, 5), None) for n, who in enumerate(items + users)]
    return Program(scope["Item"], scope["User"]), items, users, made


@pytest.mark.parametrize("bins", [2, 5])
def test_transactions_are_serializable_in_the_order_of_the_front(bins: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers and states are those of the plain carrier, which runs one after the other. All that they need is in their
    arguments, so they take one micro-batch, and another one sends back what has changed."""
    program, items, users, made = transactions()
    order, finish = list[int](), FetchingFront.finish
    monkeypatch.setattr(FetchingFront, "finish", lambda *given: (order.append(given[1]), finish(*given))[1])
    for seed in range(8):
        rng, plain, asked = Random(seed), PlainStore(program), dict[int, AskMessage]()
        for n in range(100, 100 + rng.choice([1, 5, 24])):
            what = rng.choice(["buy", "buy", "fails", "catches", "add"])
            basket = rng.choices(items, k=rng.randrange(1, 4))
            args = {"buy": (basket, 1), "add": (1,)}.get(what, (basket[0],))
            asked[n] = AskMessage(n, rng.choice(users), what, args, None)
        for each in made:
            plain.create(each.who.cls, *each.args or ())
        order.clear()
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            machine = on_a_machine(rng, patch)
            with start(Path(folder), bins, program) as front:
                front.run(made)
                answers = [{n: comparable(a) for n, a in front.run(asked.values()).items()} for _ in range(2)]
                assert front.rounds <= 3 and answers[0] == answers[1]
            assert sorted(order) == sorted(asked)
            for n in order:
                reply = plain.call(asked[n].who, asked[n].what, *asked[n].args or ())
                assert answers[0][n] == comparable(reply.error or reply.value), n
            assert state(machine) == {(who.cls, who.key): plain.state(who) for who in items + users}


def lost(seed: int) -> str:
    """Send transactions and other methods at once. Return what stock and credit are not, by what was answered."""
    program, items, users, made = transactions()
    rng, asked = Random(seed), dict[int, AskMessage]()
    for n in range(100, 120):
        item, other, user = rng.choice(items), rng.choice(items), rng.choice(users)
        who, what, args = rng.choice(
            [
                (item, "put", (2,)),
                (item, "take", (1,)),
                (user, "buy", ([item, other], 1)),
                (user, "slowly", (item, other)),
            ]
        )
        asked[n] = AskMessage(n, who, what, args, None)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        machine = on_a_machine(rng, patch)
        with start(Path(folder), 3, program) as front:
            front.run(made)
            found = front.run(asked.values())
    expected = {who.key: 5 for who in items + users}
    for n, (_, who, what, args, *_) in asked.items():
        if not isinstance(found[n], Exception) and args is not None:
            if what in ("put", "take"):
                expected[who.key] += 2 if what == "put" else -1
            else:
                first, second = args[0] if what == "buy" else args
                expected[first.key] -= 1
                expected[second.key] += -1 if what == "buy" else 1
                expected[who.key] -= 2 if what == "buy" else 0
    left = {key: each.get("stock", each.get("credit")) for (_, key), each in state(machine).items()}
    return "" if left == expected else f"{seed}: {left}, not {expected}"


def test_nothing_is_lost_beside_methods_without_the_decorator(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other methods change is there, also if transactions run in between. It is not there if entities are fetched
    before a bin handles the other messages of a round."""
    assert [each for seed in range(10) if (each := lost(seed))] == []
    order = on_spark._order
    monkeypatch.setattr(on_spark, "_order", lambda message: order(message)[0] % 2)
    assert any(lost(seed) for seed in range(10))


def test_several_bins_and_transactions(machine: Machine, tmp_path: Path) -> None:
    """A transaction takes a micro-batch, also if it is asked within a method that is none; an entity that it finds
    through another one takes one more. Messages of other requests are not lost meanwhile."""
    scope = cell(TRANSACTIONS + PAIRS)
    program = Program(scope["Item"], scope["User"], scope["Pair"])
    places = (("Item", 0), ("Item", 1), ("Item", 2), ("User", 3))
    *items, user = (
        next(who for n in range(99) if bin_of(who := Reference(cls, str(n)), 8) == bin) for cls, bin in places
    )
    made = [AskMessage(n, who, "__init__", (who.key, 5), None) for n, who in enumerate([*items, user])]
    with start(tmp_path, 8, program) as front:
        front.run(made)
        front.run([AskMessage(10, items[0], "take", (1,), None)])
        assert front.rounds == 1 + 2
        asked = [AskMessage(11, items[1], "take", (2,), None)]
        asked += [AskMessage(n, items[n % 3], "put", (1,), None) for n in range(20, 29)]
        assert front.run(asked)[11] is None
        stock = {name[1]: each["stock"] for name, each in state(machine).items() if name[0] == "Item"}
        assert stock == {items[0].key: 7, items[1].key: 6, items[2].key: 8}
        before = front.rounds
        assert front.run([AskMessage(30, user, "slowly", (items[0], items[1]), None)]) == {30: 7}
        assert front.rounds == before + 5
        assert state(machine)["Item", items[0].key]["stock"] == 6
        pair = Reference("Pair", "p")
        front.run([AskMessage(40, pair, "__init__", ("p", items[0], items[1]), None)])
        before = front.rounds
        asked = [AskMessage(41, pair, "move", (), None), AskMessage(42, items[1], "put", (1,), None)]
        assert front.run(asked) == {41: 9, 42: 8}
        assert front.rounds == before + 2 + 1
        front.run([AskMessage(43, pair, "move", (), None), AskMessage(44, pair, "move", (), None)])
        before = front.rounds
        assert front.run([AskMessage(45, pair, "move", (), None)]) == {45: 12}
        assert front.rounds == before + 1 + 1  # the front has fetched both items with the pair


PAIRS = """
@entity
class Pair:
    one: Item
    two: Item
    def __init__(self, name: str, one: Item, two: Item):
        self.name, self.one, self.two = name, one, two
    def __key__(self):
        return self.name
    @transactional
    def move(self) -> int:
        self.one.take(1)
        return self.two.put(1)
"""


def test_a_folder_that_exists_is_told_in_a_note(
    machine: Machine, tmp_path: Path, notes: Callable[[], list[str]]
) -> None:
    """A new program logs nothing. One that continues logs one line, as all engines do, and its repr says it."""
    with start(tmp_path) as front:
        ask(front, f"POST {MAKE['items']}")
        assert notes() == [] and repr(front) == "<entities on Spark, bins=1, rounds=1>"
    with start(tmp_path) as front:
        assert notes() == [f"continues from {tmp_path}, round 1"]
        assert repr(front).endswith(f", continued from {tmp_path}, round 1>")
