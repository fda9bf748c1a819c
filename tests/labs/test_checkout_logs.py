"""labs/checkout/embedded and labs/checkout/log: state in memory is what a restart reads from the log."""

from __future__ import annotations

import importlib
import json
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

CHECKOUT = Path(__file__).resolve().parents[2] / "labs" / "checkout"


@contextmanager
def importing(folder: str) -> Iterator[None]:
    """Import modules from a folder. Their short names do not stay in sys.modules."""
    names = {path.stem for path in (CHECKOUT / folder).glob("*.py")}
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.path.insert(0, str(CHECKOUT / folder))
    try:
        yield
    finally:
        sys.path.remove(str(CHECKOUT / folder))
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(before)


def store(path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The store of a new process of `embedded`."""
    monkeypatch.setenv("LOG", str(path))
    with importing("embedded"):
        return importlib.import_module("store")


LEFT_OPEN = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""A process that refuses to start does not close its file before it ends."""


@LEFT_OPEN
def test_a_transaction_is_in_memory_and_in_the_log_or_in_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block reads what it has written. If it raises, nothing has changed. A restart reads the same rows."""
    path = tmp_path / "log"
    first = store(path, monkeypatch)
    with first.transaction() as rows:
        rows["item 1"] = {"stock": 3}
        assert rows["item 1"] == {"stock": 3} and first.ROWS == {}
    with pytest.raises(KeyError), first.transaction() as rows:
        rows["item 1"] = {"stock": 2}
        rows["item 2"]
    with first.transaction():
        pass
    with first.transaction() as rows:
        rows["item 2"] = ("a", 1)
    assert first.ROWS == {"item 1": {"stock": 3}, "item 2": ["a", 1]}
    with pytest.raises(SystemExit, match="in use by another process"):
        store(path, monkeypatch)
    first._log.close()
    again = store(path, monkeypatch)
    assert again.ROWS == first.ROWS and len(path.read_bytes().splitlines()) == 2
    again._log.close()


@LEFT_OPEN
def test_a_torn_line_is_removed_and_a_damaged_one_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is read up to its torn end, and written on; a damaged line stops the service, by its offset."""
    path = tmp_path / "log"
    path.write_bytes(b'{"a":1}\n{"a":2,"b"')
    torn = store(path, monkeypatch)
    with torn.transaction() as rows:
        rows["c"] = rows["a"]
    torn._log.close()
    assert torn.ROWS == {"a": 1, "c": 1} and path.read_bytes() == b'{"a":1}\n{"c": 1}\n'
    path.write_bytes(b'{"a":1}\n{"a":\n{"a":3}\n')
    with pytest.raises(SystemExit, match="the line at byte 8 is damaged"):
        store(path, monkeypatch)
    assert path.read_bytes() == b'{"a":1}\n{"a":\n{"a":3}\n'


with importing("log"):
    LOG = {name: importlib.import_module(name) for name in ("log", "order", "payment", "stock", "past")}
SERVICES = ("order", "stock", "payment")
ITEMS, USERS, GOODS, MONEY, PRICE = 2, 2, 3, 5, 1


class Shop:
    """A log and the three folds, each at an offset of its own. Results arrive as late and as often as a test wants."""

    def __init__(self, orders: list[tuple[int, list[tuple[int, int]]]]) -> None:
        self.records: list[dict[str, Any]] = []
        self.answers: dict[int, int] = {}
        self.folds: dict[str, Any] = {}
        self.saved = dict.fromkeys(SERVICES, b"")
        self.orders = orders
        for name in SERVICES:
            self.start(name)
        self.ask("batch_items", n=ITEMS, stock=GOODS, price=PRICE)
        self.ask("batch_users", n=USERS, money=MONEY)
        self.ids = []
        for user, lines in orders:
            self.ids.append(f"order-{self.ask('create_order', user=str(user))}")
            for item, quantity in lines:
                self.ask("add_line", order=self.ids[-1], item=str(item), quantity=quantity)

    def ask(self, kind: str, **values: Any) -> int:
        """Append a request, and return its offset."""
        self.records.append({"kind": kind, "asker": "", **values})
        return len(self.records) - 1

    def send(self, results: Any) -> None:
        """Append results. As service.py sends them, a record is JSON."""
        self.records += [json.loads(json.dumps(result)) for result in results]

    def tell(self, at: int, status: int, answer: dict[str, Any]) -> None:
        """The answer to a request never changes: not in another life of the service, not in a replay."""
        assert self.answers.setdefault(at, status) == status

    def start(self, name: str) -> None:
        """kill -9, and a new process that loads the last snapshot."""
        fold = self.folds[name] = LOG[name].FOLD(self.tell)
        if state := self.saved[name]:
            vars(fold).update(pickle.loads(state))
        self.send(fold.pending.values())

    def save(self, name: str) -> None:
        """Write a snapshot."""
        fold = self.folds[name]
        self.saved[name] = pickle.dumps({k: v for k, v in vars(fold).items() if k != "tell"})

    def turn(self, name: str, most: int) -> bool:
        """Apply some records. Returns whether there were any."""
        fold = self.folds[name]
        records = self.records[fold.offset : fold.offset + most]
        for record in records:
            self.send(fold.apply(record))
        return bool(records)

    def settle(self) -> None:
        """Apply all records."""
        while sum(self.turn(name, 1000) for name in SERVICES):
            pass

    def check(self) -> None:
        """Each checkout is answered, each order is paid everywhere or nowhere, and the balances are what is left."""
        self.settle()
        order, stock, payment = (self.folds[name] for name in SERVICES)
        items, users = [GOODS] * ITEMS, [MONEY] * USERS
        said: dict[str, set[int]] = {name: set() for name in self.ids}
        for at, record in enumerate(self.records):
            if record["kind"] == "checkout":
                said[record["order"]].add(self.answers[at])
        for name, (user, lines) in zip(self.ids, self.orders, strict=True):
            paid = order.find(name)["paid"]
            assert paid == (200 in said[name]) and said[name] <= {200, 400}
            for item, quantity in lines if paid else ():
                items[item] -= quantity
                users[user] -= quantity * PRICE
        assert [stock.find(str(item))["stock"] for item in range(ITEMS)] == items and min(items) >= 0
        assert [payment.find(str(user))["credit"] for user in range(USERS)] == users and min(users) >= 0
        assert not any(fold.pending for fold in self.folds.values())


ORDERS = st.lists(
    st.tuples(
        st.integers(0, USERS - 1),
        st.lists(st.tuples(st.integers(0, ITEMS - 1), st.integers(1, 2)), min_size=1, max_size=3),
    ),
    min_size=2,
    max_size=5,
)
SERVICE = st.sampled_from(SERVICES)
STEP = st.one_of(
    st.tuples(st.just("checkout"), st.integers(0, 4)),
    st.tuples(st.just("turn"), SERVICE, st.integers(1, 4)),
    st.tuples(st.just("turn"), SERVICE, st.integers(1, 100)),
    st.tuples(st.just("save"), SERVICE),
    st.tuples(st.just("start"), SERVICE),
)


@settings(max_examples=150, deadline=None)
@given(ORDERS, st.lists(STEP, max_size=50))
def test_an_order_is_paid_everywhere_or_nowhere(orders: Any, steps: list[tuple[Any, ...]]) -> None:
    """Whatever is killed and sent again: after all records are applied, answers and balances agree, without a retry."""
    shop = Shop(orders)
    for what, *values in steps:
        if what == "checkout":
            shop.ask("checkout", order=shop.ids[values[0] % len(orders)])
        else:
            getattr(shop, what)(*values)
    shop.check()
    for name in shop.ids:
        shop.ask("checkout", order=name)
    shop.check()


def test_a_result_that_comes_twice_counts_once() -> None:
    """A service that is killed after it has sent a result sends it again, and nobody takes or charges again."""
    shop = Shop([(0, [(0, 2)])])
    shop.ask("checkout", order=shop.ids[0])
    for _ in range(3):
        for name in SERVICES:
            shop.turn(name, 1000)
            shop.start(name)
    shop.check()
    kinds = [record["kind"] for record in shop.records if "of" in record]
    assert set(kinds) == {"wanted", "taken", "charged"} and all(kinds.count(kind) > 1 for kind in kinds)
    assert shop.folds["stock"].find("0")["stock"] == GOODS - 2


def test_the_past_is_the_fold_of_the_first_records(tmp_path: Path) -> None:
    """--until OFFSET shows the services as they were before the record at this offset."""
    shop = Shop([(0, [(0, 2)])])
    at = shop.ask("checkout", order=shop.ids[0])
    shop.settle()
    log = LOG["log"].Log(tmp_path / "log")
    for record in shop.records:
        log.append(json.dumps(record).encode() + b"\n")
    log.file.close()
    assert [json.loads(line) for line in log.read(at)] == shop.records[at:]
    kinds = ["checkout", "wanted", "taken", "charged"]
    assert [record["kind"] for record in shop.records[at:]] == kinds
    seen = []
    for until in range(at + 1, len(shop.records) + 1):
        orders, stock, payment = LOG["past"].past(tmp_path / "log", until)
        seen.append((stock.items["0"]["stock"], payment.credit["0"], orders.find(shop.ids[0])["paid"]))
    assert seen == [(3, 5, False), (1, 5, False), (1, 3, False), (1, 3, True)]
    assert LOG["past"].past(tmp_path / "log")[0].offset == len(shop.records)


def test_the_log_removes_a_torn_line(tmp_path: Path) -> None:
    """A kill can tear the last line; its offset goes to the next line."""
    path = tmp_path / "log"
    path.write_bytes(b'{"kind":"a"}\n{"ki')
    log = LOG["log"].Log(path)
    log.append(b'{"kind":"b"}\n')
    log.file.close()
    assert log.read(0) == [b'{"kind":"a"}\n', b'{"kind":"b"}\n'] and log.read(1) == log.read(0)[1:]
    assert path.read_bytes() == b"".join(log.read(0))
