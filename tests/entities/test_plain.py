"""The plain carrier: requests one after the other, each whole or not at all; values are copied at every question."""

from __future__ import annotations

import shutil
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
from carriers import Bins, Plain, Split, cell

import sharedstate_lite.entities as entities
from sharedstate_lite.entities import NotPlain, PlainStore, Program, Reference, Refused, bins
from sharedstate_lite.entities.errors import MOST_DEPTH

SHOP = """
from __future__ import annotations
class Odd(Exception):
    def __init__(self, one, two):
        super().__init__(one, two)
@entity
class Item:
    def __init__(self, name: str, stock: int):
        self.name, self.stock, self.log, self.rate = name, stock, [], 1.0
    def __key__(self):
        return self.name
    def take(self, n: int):
        self.stock -= n
        if self.stock < 0:
            raise Refused("out of stock")
    def odd(self):
        raise Odd("a", 2)
    def grows(self, xs: list[int]) -> list[int]:
        xs.append(1)
        self.log.append(2)
        return self.log
    def nudges(self, user: User):
        user.mark()
    def touches(self, user: User):
        self.stock += 1
        user.pay(self.stock)
@entity
class User:
    def __init__(self, name: str, balance: int):
        self.name, self.balance, self.marks = name, balance, [1, 2]
    def __key__(self):
        return self.name
    def mark(self):
        self.marks.append(9)
    def walks(self, item: Item) -> list[int]:
        seen = []
        for mark in self.marks:
            item.nudges(self)
            seen.append(mark)
        return seen + self.marks
    def pay(self, n: int) -> int:
        self.balance -= n
        return self.balance
    def buys(self, item: Item, n: int) -> bool:
        self.balance -= 1
        item.take(n)
        return True
    def tries(self, item: Item, n: int) -> bool:
        self.balance -= 1
        try:
            item.take(n)
        except Refused:
            return False
        return True
    def divides(self, item: Item):
        item.take(1)
        self.balance = 1 // 0
    def meets(self, item: Item) -> int:
        before = self.balance
        item.touches(self)
        return before - self.balance
    def catches(self, item: Item) -> str:
        try:
            item.odd()
        except Odd as error:
            return str(error)
        return ""
    def copies(self, item: Item) -> list[list[int]]:
        mine = [0]
        got = item.grows(mine)
        got.append(3)
        return [mine, got, item.log]
    def breaks(self, item: Item):
        item.take(1)
        self.balance = float("nan")
    def returns(self, item: Item):
        item.take(1)
        return {1, 2}
    def offers(self, item: Item) -> str:
        try:
            item.grows({1})
        except NotPlain as error:
            return str(error)
        return ""
    def opens(self, name: str):
        Item(name, 7)
        self.balance = Item[name].stock + self.balance
    def numbers(self):
        Item(7, 7)
    def deep(self, n: int) -> int:
        return self.deep(n - 1) + 1 if n > 1 else 1
    def deeper(self, n: int) -> int:
        try:
            return self.deep(n)
        except RecursionError:
            return -1
    def ends(self, item: Item):
        item.take(1)
        try:
            raise MemoryError
        except Exception:
            pass
    def stops(self, item: Item):
        item.take(1)
        raise self.name
    def loops(self):
        while True:
            self.balance += 1
"""
ANN, PEAR = Reference("User", "ann"), Reference("Item", "pear")


def program() -> Program:
    """The shop."""
    scope = cell(SHOP)
    return Program(scope["User"], scope["Item"], strict=True)


@pytest.fixture
def store() -> PlainStore:
    """A store with ann, who has 10, and 5 pears."""
    made = PlainStore(program())
    assert made.create("User", "ann", 10) == (200, ANN, None)
    assert made.create("Item", "pear", 5) == (200, PEAR, None)
    return made


def left(store: PlainStore) -> tuple[int, int]:
    """The balance of ann, and how many pears there are."""
    return store.state(ANN)["balance"], store.state(PEAR)["stock"]


def test_a_request_that_is_refused_has_no_effect(store: PlainStore) -> None:
    """400: what was changed here and there is undone."""
    assert store.call(ANN, "buys", PEAR, 2).value is True and left(store) == (9, 3)
    reply = store.call(ANN, "buys", PEAR, 9)
    assert (reply.status, str(reply.error)) == (400, "out of stock") and left(store) == (9, 3)


def test_another_exception_has_no_effect_either(store: PlainStore) -> None:
    """500; its traceback ends in the line of the method."""
    reply = store.call(ANN, "divides", PEAR)
    assert reply.status == 500 and isinstance(reply.error, ZeroDivisionError) and left(store) == (10, 5)
    last = traceback.extract_tb(reply.error.__traceback__)[-1]
    assert (last.name, last.line) == ("divides", "self.balance = 1 // 0")


def test_what_is_caught_undoes_nothing(store: PlainStore) -> None:
    """The item has taken before it raised, and the user has caught that."""
    assert store.call(ANN, "tries", PEAR, 9).value is False and left(store) == (9, -4)


def test_an_exception_crosses_as_its_class_and_one_string(store: PlainStore) -> None:
    """The program's own class is caught by its name, though its constructor takes two arguments."""
    assert store.call(ANN, "catches", PEAR).value == "('a', 2)"
    reply = store.call(PEAR, "odd")
    assert (reply.status, type(reply.error).__name__, str(reply.error)) == (500, "Odd", "('a', 2)")


def test_values_are_copied(store: PlainStore) -> None:
    """What the other changes in an argument, and the caller in a result, is not seen by the other."""
    assert store.call(ANN, "copies", PEAR).value == [[0], [2, 3], [2]]


def test_a_call_comes_back(store: PlainStore) -> None:
    """user → item → user: the same transaction, and self is passed as a reference."""
    assert store.call(ANN, "meets", PEAR).value == 6 and left(store) == (4, 6)


@pytest.mark.parametrize(
    ("method", "says"),
    [("breaks", "User.balance holds nan; data are int"), ("returns", "the result of returns holds set; data are")],
)
def test_state_and_results_are_data(store: PlainStore, method: str, says: str) -> None:
    """500, with what is no data, and nothing has changed."""
    reply = store.call(ANN, method, PEAR)
    assert reply.status == 500 and isinstance(reply.error, NotPlain)
    assert str(reply.error).startswith(says) and left(store) == (10, 5)


def test_an_argument_is_data() -> None:
    """The asker can catch that its argument is no data, on every carrier."""
    for name, run in carriers().items():
        assert run(ANN, "offers", PEAR).startswith("an argument holds set; data are int, str"), name


def test_a_loop_that_asks_goes_over_a_copy() -> None:
    """Python would see what is appended meanwhile: for ever, here. The carriers agree on a copy."""
    for name, run in carriers().items():
        assert run(ANN, "walks", PEAR) == [1, 2, 1, 2, 9, 9], name


def test_keys(store: PlainStore) -> None:
    """An existing key and an unknown one are refused; a key is a str; what was created is undone."""
    assert str(store.call(ANN, "opens", "pear").error) == "Item pear exists"
    assert store.call(ANN, "opens", "plum").status == 200 and left(store) == (17, 5)
    assert str(store.call(Reference("User", "bob"), "pay", 1).error) == "User bob is unknown"
    assert str(store.call(ANN, "numbers").error) == "Item.__key__ returns 7; a key is a str"
    assert store.call(ANN, "opens", "pear").status == 400 and left(store) == (17, 5)


def test_many(store: PlainStore) -> None:
    """Entities that exist are replaced."""
    store.many("Item", [(str(i), 3) for i in range(4)])
    store.many("Item", [(str(i), i) for i in range(2)])
    assert [store.state(Reference("Item", str(i)))["stock"] for i in range(4)] == [0, 1, 3, 3]


def test_wrong_arguments(store: PlainStore) -> None:
    """Too few, and what is no data: 500, nothing has changed."""
    assert isinstance(store.call(ANN, "pay").error, TypeError)
    assert isinstance(store.call(ANN, "pay", object()).error, NotPlain)
    assert left(store) == (10, 5)


def carriers() -> dict[str, Any]:
    """ann and her pears on each carrier: a function that runs a request and returns its answer."""
    runs = {kind.__name__.lower(): kind(program()).request for kind in (Plain, Split, Bins)}
    for run in runs.values():
        assert (run(ANN, "__init__", "ann", 10), run(PEAR, "__init__", "pear", 5)) == (ANN, PEAR)
    return runs


@pytest.mark.parametrize("carrier", ["plain", "split", "bins"])
def test_depth(carrier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """500 questions can wait for one another; the next one raises in its asker, which can catch it."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    try:
        run = carriers()[carrier]
        assert run(ANN, "deep", MOST_DEPTH) == MOST_DEPTH
        assert isinstance(run(ANN, "deep", MOST_DEPTH + 1), RecursionError)
        assert (run(ANN, "deeper", MOST_DEPTH - 1), run(ANN, "deeper", MOST_DEPTH)) == (MOST_DEPTH - 1, -1)
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize("carrier", ["plain", "bins"])
def test_memory_that_ends_ends_the_process(carrier: str) -> None:
    """MemoryError is caught by no handler, and leaves the carrier."""
    with pytest.raises(MemoryError):
        carriers()[carrier](ANN, "ends", PEAR)


def test_memory_that_ends_undoes(store: PlainStore) -> None:
    """Whoever catches it finds the state from before."""
    with pytest.raises(MemoryError):
        store.call(ANN, "ends", PEAR)
    assert left(store) == (10, 5)


def test_a_loop_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """In blocks it is stopped after so many of them, and what it did is undone."""
    monkeypatch.setattr(bins, "MOST_BLOCKS", 1000)
    run = carriers()["bins"]
    assert str(run(ANN, "loops")).startswith("User.loops has run 1000 blocks without a question or an end")
    assert run(ANN, "pay", 0) == 10


def test_refused_by_every_carrier() -> None:
    """The same class and the same text."""
    for run in carriers().values():
        error = run(ANN, "buys", PEAR, 9)
        assert (type(error), str(error)) == (Refused, "out of stock")


def test_the_room_needs_the_standard_library_alone(tmp_path: Path) -> None:
    """A copy of its modules runs by itself, and imports nothing that Python does not come with."""
    room = Path(entities.__file__).parent
    shutil.copytree(room, tmp_path / "entities", ignore=shutil.ignore_patterns("*spark*", "show*", "__pycache__"))
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import entities, entities.bins; "
        "print(sorted({name.partition('.')[0] for name in sys.modules} - {*sys.stdlib_module_names, '__main__'}))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("['entities']", "")
