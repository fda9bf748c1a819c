"""A compiled method as data: its blocks, who is asked, and which names travel."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from carriers import Split, cell
from test_seed import SEED, program

from sharedstate_lite.entities import Program, Reference, many, new
from sharedstate_lite.entities.machine import Ask, Edge

SAGA = """
from __future__ import annotations
@entity
class Item:
    def __init__(self, name: str, stock: int):
        self.name, self.stock = name, stock
    def __key__(self):
        return self.name
    def put(self, n: int):
        self.stock += n
    def take(self, n: int):
        if self.stock < n:
            raise Refused("out of stock")
        self.stock -= n
@entity
class Order:
    lines: list[tuple[Item, int]]
    def __init__(self, order_id: str, lines: list[tuple[Item, int]]):
        self.order_id, self.lines, self.paid = order_id, lines, False
    def __key__(self):
        return self.order_id
    def checkout(self) -> bool:
        taken = []
        try:
            for item, n in self.lines:
                item.take(n)
                taken.append((item, n))
        except Refused:
            for item, n in taken:
                item.put(n)
            return False
        self.paid = True
        return True
"""


def test_the_machine_of_the_seed() -> None:
    """Three questions on the way of a purchase, and which names their frames have."""
    machine = program().machine("buy_item", "User")
    assert (machine.parameters, machine.annotations, machine.transactional) == (
        ("amount", "item"),
        ("int", "Item"),
        True,
    )
    asks = [ask for block in machine.blocks.values() for ask in block.asks]
    assert [(a.who, a.cls, a.what, a.args, a.travels) for a in asks] == [
        ("item", "Item", "price", None, ("amount", "item")),
        ("item", "Item", "update_stock", ("-amount",), ("amount", "item", "total_price")),
        ("item", "Item", "update_stock", ("amount",), ()),
    ]
    assert [block.edges for block in machine.blocks.values()] == [
        (Edge(1, "item.price"),),
        (Edge(2, "item.update_stock"),),
        (Edge(3, "item.update_stock 2"),),
        (),
    ]
    texts = [[text.strip() for _, text in block.lines] for block in machine.blocks.values()]
    assert texts[0] == ["total_price = amount * item.price"] and texts[3] == ["return False"]
    assert texts[2][1:] == ["if not available_stock:", "item.update_stock(amount)", "self.balance -= total_price"]
    source = SEED.splitlines()
    assert all(text == source[number - 1] for block in machine.blocks.values() for number, text in block.lines)


def test_a_loop_and_its_handler() -> None:
    """The rest of the list travels; a question in a try has an edge to the handler, which needs what it undoes."""
    scope = cell(SAGA)
    compiled = Program(scope["Item"], scope["Order"], strict=True)
    machine = compiled.machine(scope["Order"].checkout)
    take = next(block for block in machine.blocks.values() if any(ask.what == "take" for ask in block.asks))
    assert take.asks[0].travels == ("item", "n", "rest of self.lines", "taken")
    (handler,) = take.handlers
    assert Edge(handler.to, "except Refused") in take.edges and handler.live == ("taken",)


def test_frames_are_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame has the names that the machine says, and survives pickle; a saga gives back what it took."""
    scope = cell(SAGA)
    split = Split(Program(scope["Item"], scope["Order"]))
    for name, stock in (("a", 5), ("b", 1)):
        split.request(Reference("Item", name), "__init__", name, stock)
    lines = [(Reference("Item", "a"), 2), (Reference("Item", "b"), 2)]
    order = Reference("Order", "o")
    split.request(order, "__init__", "o", lines)
    seen: list[tuple[str, dict[str, Any]]] = []
    ask = split.ask

    def watched(question: Ask, depth: int) -> Any:
        if question.name:
            seen.append((question.what, pickle.loads(pickle.dumps(question.frame))))
        return ask(question, depth)

    monkeypatch.setattr(split, "ask", watched)
    assert split.request(order, "checkout") is False
    assert [split.state["Item", name]["stock"] for name in "ab"] == [5, 1]
    (a, _), (b, _) = lines
    assert seen == [
        ("take", {"item": a, "n": 2, "rest of self.lines": [(b, 2)], "taken": []}),
        ("take", {"item": b, "n": 2, "rest of self.lines": [], "taken": [(a, 2)]}),
        ("put", {"rest of taken": []}),
    ]


def test_two_programs_have_one_hash_if_their_trees_are_equal() -> None:
    """Comments and places do not count; statements and routes do."""
    routes = {
        "POST /create": lambda scope: new(scope["Order"], "order_id"),
        "POST /many/{n:int}": lambda scope: many("n", scope["Item"], lambda i: (str(i), 1)),
        "POST /put/{item}/{n:int}": lambda scope: scope["Item"].put,
    }

    def digest(source: str, *paths: str, one: int = 1) -> str:
        scope = cell(source, ONE=one)
        return Program(scope["Item"], scope["Order"], routes={p: routes[p](scope) for p in paths}).digest

    assert digest(SAGA, *routes) == digest("# a comment\n" + SAGA, *reversed(routes))
    different = [digest(SAGA, *list(routes)[:n]) for n in range(4)] + [digest(SAGA.replace("stock += n", "stock -= n"))]
    different += [digest(SAGA.replace("+= n", "+= n * ONE"), one=n) for n in (1, 2)]
    assert len(set(different)) == 7


def test_too_many_arguments() -> None:
    """The first frame has the parameters, with their defaults."""
    source = "@entity\nclass A:\n    def __init__(self): ...\n    def __key__(self): return 'a'\n"
    scope = cell(source + "    def f(self, n, m: int = 3): return n + m\n")
    machine = Program(scope["A"]).machine("f", "A")
    assert machine.frame((1,)) == {"n": 1, "m": 3}
    for args in ((), (1, 2, 3)):
        with pytest.raises(TypeError, match=f"A.f takes 2 arguments, not {len(args)}"):
            machine.frame(args)
