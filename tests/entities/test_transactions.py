"""Transactions over bins: epochs and locks are serializable in the order that the front reports."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from carriers import cell
from generated import World, source, transactions
from hypothesis import given
from hypothesis import strategies as st
from test_generated import same
from test_seed import SEED

from sharedstate_lite.entities import Program, Reference
from sharedstate_lite.entities.bins import AskMessage, EntityBin, rounds
from sharedstate_lite.entities.epochs import Copies, EpochBin, Epochs
from sharedstate_lite.entities.locks import Locks

FRONTS: dict[str, Any] = {
    "gathered": lambda program, bins: Epochs(program, bins),
    "retried": lambda program, bins: Epochs(program, bins, gather=False),
    "locked": Locks,
}
SHOP = """
from __future__ import annotations
@entity
class Item:
    def __init__(self, name: str, stock: int):
        self.name, self.stock = name, stock
    def __key__(self):
        return self.name
    def put(self, n: int) -> int:
        self.stock += n
        return self.stock
    @transactional
    def take(self, n: int):
        if self.stock < n:
            raise Refused("out of stock")
        self.stock -= n
@entity
class User:
    def __init__(self, name: str, credit: int):
        self.name, self.credit = name, credit
    def __key__(self):
        return self.name
    @transactional
    def add(self, n: int):
        self.credit += n
    @transactional
    def buy(self, items: list[Item], price: int) -> bool:
        for item in items:
            item.take(1)
            self.credit -= price
        if self.credit < 0:
            raise Refused("out of credit")
        return True
    @transactional
    def fails(self, item: Item):
        item.put(1)
        self.credit = 1 // 0
    @transactional
    def catches(self, item: Item) -> int:
        try:
            item.put(1)
            item.take(99)
        except Refused:
            return item.stock
        return 0
    def slowly(self, item: Item, other: Item) -> int:
        item.take(1)
        return other.put(1)
"""


def ask(number: int, who: str, what: str, *args: Any) -> AskMessage:
    """A request; ``who`` is ``User ann``."""
    return AskMessage(number, Reference(*who.split()), what, args, None)


def shop(front: Any, users: dict[str, int], items: dict[str, int], bins: int = 8) -> Any:
    """A front over bins with users, by credit, and items, by stock."""
    scope = cell(SHOP)
    made = front(Program(scope["Item"], scope["User"]), bins)
    new = [ask(0, f"User {name}", "__init__", name, credit) for name, credit in users.items()]
    new += [ask(0, f"Item {name}", "__init__", name, stock) for name, stock in items.items()]
    made.run([message._replace(request=-n - 1) for n, message in enumerate(new)])
    made.order.clear()
    return made


def left(front: Any) -> dict[str, int]:
    """The stock or credit of each entity."""
    return {key: state.get("stock", state.get("credit")) for (_, key), state in front.state().items()}


def difference(kind: str, seed: int) -> str:
    """Send six requests to a generated program at once. Return what differs from the undecorated classes, which run
    one request after the other in the reported order."""
    rng = Random(seed)
    text = transactions(source(rng))
    scope = cell(text)
    front = FRONTS[kind](Program(scope["Account"], scope["Item"]), rng.randrange(1, 5))
    world = World(text, {"transactional": lambda method: method})
    item = [Reference("Item", f"i{n}") for n in range(3)]
    new: list[tuple[Reference, Any]] = [(item[n], (f"i{n}", rng.randrange(6))) for n in range(2)]
    new += [(Reference("Account", name), (name, rng.randrange(4), item[0])) for name in ("ann", "bob")]
    for who, args in new:
        world.request(who, "__init__", *args)
        front.run([AskMessage(-1, who, "__init__", args, None)])
    front.order.clear()
    requests = {}
    for number in range(6):
        who, account = rng.choice(item), Reference("Account", rng.choice(["ann", "bob"]))
        calls: list[Any] = [(account, "run", who, item[1:], rng.randrange(-1, 4))] * 3
        calls += [(who, "put", 2), (who, "take", 3), (who, "back", account, 1)]
        who, method, *args = rng.choice(calls)
        requests[number] = AskMessage(number, who, method, tuple(args), None)
    answers = front.run(requests.values())
    assert sorted(front.order) == sorted(answers) == sorted(requests)
    for number in front.order:
        expected = world.request(requests[number].who, requests[number].what, *(requests[number].args or ()))
        if not same(answers[number], expected):
            return f"{number} of {front.order} answers {answers[number]!r}, not {expected!r}\n{text}"
    return "" if front.state() == world.state else f"{front.state()} after {front.order}, not {world.state}\n{text}"


@pytest.mark.parametrize("kind", FRONTS)
@given(seed=st.integers(0, 2**32))
def test_rule_36_any_program_is_serializable_in_the_reported_order(kind: str, seed: int) -> None:
    """Answers and states are those of the reported order."""
    assert difference(kind, seed) == ""


def _without_reads(bin: EpochBin, order: list[int], failed: set[int]) -> set[int]:
    """Conflicts of writes with writes alone."""
    for copies in bin.copies.values():
        copies.mine = copies.written()
        copies.found = {name: copies.found[name] for name in copies.mine}
    return _conflicts(bin, order, failed)


_conflicts: Any = EpochBin.conflicts
WRONG: dict[str, tuple[Any, str, Any]] = {
    "no conflicts": (EpochBin, "conflicts", lambda *_: set()),
    "conflicts of writes alone": (EpochBin, "conflicts", _without_reads),
    "a gathered state is not sent back": (Copies, "written", lambda copies: {} if copies.lent else _written(copies)),
    "no undo": (EpochBin, "decide", lambda bin, installs, gathers: _decide(bin, {*installs, *bin.copies}, gathers)),
}
_decide: Any = EpochBin.decide
_written: Any = Copies.written


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_front_is_found(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line that serializability needs is missed by the comparison above."""
    monkeypatch.setattr(*WRONG[wrong])
    assert any(difference("gathered", seed) for seed in range(60))


@pytest.mark.parametrize("kind", FRONTS)
def test_the_seed_is_right_with_its_decorator(kind: str) -> None:
    """Of 5 in stock, with 10 and 3 wanted at once, 3 are sold; a user's balance does not fall below 0."""
    scope = cell(SEED.replace("self.balance -= total_price", "self.balance -= total_price\n        return True"))
    front = FRONTS[kind](Program(scope["User"], scope["Item"]), 8)
    front.run([ask(n, f"User {n}", "__init__", str(n)) for n in range(3)])
    front.run([ask(0, "Item x", "__init__", "x", 1), ask(1, "Item y", "__init__", "y", 1)])
    front.run([ask(0, "Item x", "update_stock", 5), ask(1, "Item y", "update_stock", 5)])
    for bin in front.bins:
        bin.installed |= {name: {**s, "balance": 10} for name, s in bin.installed.items() if name[0] == "User"}
    x, y = Reference("Item", "x"), Reference("Item", "y")
    wanted = [("User 0", 10, x), ("User 1", 3, x), ("User 2", 9, y), ("User 2", 5, y), ("User 2", 4, y)]
    answers = front.run([ask(n, who, "buy_item", amount, item) for n, (who, amount, item) in enumerate(wanted)])
    state = front.state()
    assert (answers[0], answers[1], state["Item", "x"]["stock"]) == (False, True, 2)
    assert sorted(answers[n] for n in (2, 3, 4)) == [False, False, True]
    bought = next(wanted[n][1] for n in (2, 3, 4) if answers[n])
    assert (state["Item", "y"]["stock"], state["User", "2"]["balance"]) == (5 - bought, 10 - bought)


@pytest.mark.parametrize("kind", FRONTS)
def test_an_exception_undoes_a_transaction_and_one_that_is_caught_does_not(kind: str) -> None:
    """What left the root undoes all; what a method caught undoes nothing; the error says where it was raised."""
    front = shop(FRONTS[kind], {"ann": 9, "bob": 9}, {"x": 2, "y": 5})
    items = [Reference("Item", "x"), Reference("Item", "y")]
    answers = front.run(
        [
            ask(1, "User ann", "buy", items, 5),
            ask(2, "User bob", "fails", items[0]),
            ask(3, "User bob", "catches", items[1]),
        ]
    )
    assert (type(answers[1]).__name__, str(answers[1])) == ("Refused", "out of credit")
    assert type(answers[2]) is ZeroDivisionError
    assert any(" in User.fails" in note for note in answers[2].__notes__)
    assert answers[3] == 6 and left(front) == {"ann": 9, "bob": 9, "x": 2, "y": 6}


def test_a_deferred_transaction_comes_first_in_the_next_epoch() -> None:
    """The second of three touches, when it runs at the front, an entity that was not gathered."""
    scope = cell(
        """
        from __future__ import annotations
        @entity
        class Node:
            def __init__(self, name: str, to: list[Node]):
                self.name, self.n, self.to = name, 0, to
            def __key__(self):
                return self.name
            def add(self):
                self.n += 1
            @transactional
            def walk(self, at: Node) -> int:
                at.add()
                if at.n > 1:
                    for node in self.to:
                        node.add()
                return at.n
        """
    )
    for gather, order, count in ((True, [1, 3, 2], 2), (False, [1, 2, 3], 3)):
        front = Epochs(Program(scope["Node"]), 4, gather)
        z = [Reference("Node", "z")]
        made = {"x": [], "z": [], "a": [], "b": z, "c": []}
        front.run([ask(n, f"Node {name}", "__init__", name, to) for n, (name, to) in enumerate(made.items())])
        x = Reference("Node", "x")
        answers = front.run([ask(n, f"Node {name}", "walk", x) for n, name in ((1, "a"), (2, "b"), (3, "c"))])
        assert (front.order, front.epochs) == (order, count)
        assert [answers[n] for n in order] == [1, 2, 3] and front.state()["Node", "z"]["n"] == 1


def test_blocks_outside_a_transaction_are_installed_one_by_one() -> None:
    """A method without the decorator asks for a transactional one, which commits before the method goes on. A
    transaction that has copied what such a block then changes is in conflict: neither addition is lost."""
    front = shop(FRONTS["gathered"], {"ann": 9, "bob": 9}, {"x": 3, "y": 0})
    x, y = Reference("Item", "x"), Reference("Item", "y")
    requests = [ask(1, "User ann", "slowly", x, y), ask(2, "User bob", "buy", [x], 1), ask(3, "Item x", "put", 4)]
    answers = front.run(requests)
    assert answers[1] == 1 and answers[2] is True and left(front) == {"ann": 9, "bob": 8, "x": 5, "y": 1}
    assert sorted(front.order) == [1, 2]
    front = shop(FRONTS["gathered"], {"ann": 9}, {"x": 0, "y": 0})
    assert type(front.run([ask(1, "User ann", "slowly", x, y)])[1]).__name__ == "Refused"


@given(
    st.lists(st.tuples(st.sampled_from(["put", "take", "buy", "slowly"]), st.integers(0, 2)), min_size=1, max_size=9)
)
def test_nothing_is_lost_beside_methods_without_the_decorator(calls: list[tuple[str, int]]) -> None:
    """Stock is what was put less what was taken by the requests that succeeded."""
    users, items = {"u0": 5, "u1": 1, "u2": 0}, {"i0": 1, "i1": 2, "i2": 0}
    front = shop(FRONTS["gathered"], users, items, 3)
    item = [Reference("Item", f"i{n}") for n in range(3)]
    made = {
        "put": lambda n: (f"Item i{n}", "put", 2),
        "take": lambda n: (f"Item i{n}", "take", 1),
        "buy": lambda n: (f"User u{n}", "buy", [item[n], item[0]], 1),
        "slowly": lambda n: (f"User u{n}", "slowly", item[n], item[1]),
    }
    requests: list[Any] = [made[what](n) for what, n in calls]
    answers = front.run([ask(n, *request) for n, request in enumerate(requests)])
    expected = {**users, **items}
    for number, (what, n) in enumerate(calls):
        if not isinstance(answers[number], Exception):
            for name, change in {
                "put": [(f"i{n}", 2)],
                "take": [(f"i{n}", -1)],
                "buy": [(f"i{n}", -1), ("i0", -1), (f"u{n}", -2)],
                "slowly": [(f"i{n}", -1), ("i1", 1)],
            }[what]:
                expected[name] += change
    assert left(front) == expected and min(expected.values()) >= 0


def test_rounds_of_an_epoch() -> None:
    """Without a conflict an epoch has the rounds of the calls and two more (conflicts, install); with one, three."""
    front = shop(FRONTS["gathered"], {"ann": 9}, {"x": 3, "y": 2})
    calls = [EntityBin(front.program, bin.number, 8) for bin in front.bins]
    for bin, installed in zip(calls, front.bins, strict=True):
        bin.state = {name: dict(state) for name, state in installed.installed.items()}
    one = ask(1, "User ann", "buy", [Reference("Item", "x"), Reference("Item", "y")], 1)
    hops = rounds(calls, [one])[1]
    before = front.rounds
    front.run([one])
    assert (front.rounds - before, front.gathered) == (hops + 2, 0)
    front.run([one._replace(request=2), one._replace(request=3)])
    assert (front.rounds - before, front.gathered) == (2 * hops + 5, 1)
