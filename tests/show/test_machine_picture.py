"""The picture of a compiled method has every line, question and edge, and nothing in it overlaps."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from types import SimpleNamespace
from typing import Any

from clear import faults
from hypothesis import given
from hypothesis import strategies as st
from support import examples

from sharedstate_lite import show

SVG = "{http://www.w3.org/2000/svg}"
NAMES = ["n", "item", "rest of self.lines", "item.update_stock 2", "total_price", "taken"]
CALLS = [
    ("item", "Item", "price", None),
    ("self.items[name]", "Item", "take", ("n - 1", "self")),
    ("Item", "Item", "__init__", ("'apple'", '"it\'s"', "n < 3")),
]


def block(live: list[str], lines: list[tuple[int, str]], edges: list[Any], asks: list[Any]) -> SimpleNamespace:
    """A block as data; a question is a call, the next block, and the frame."""
    questions = tuple((*call, f"answer {n}", then, tuple(frame)) for n, (call, then, frame) in enumerate(asks))
    edges = [*edges, *((then, f"answer {n}") for n, (_, then, _) in enumerate(asks))]
    return SimpleNamespace(live=live, lines=lines, edges=edges, asks=questions)


def method(blocks: list[SimpleNamespace]) -> SimpleNamespace:
    """A machine as data."""
    return SimpleNamespace(cls="User", method="buy", parameters=("n", "item"), blocks=dict(enumerate(blocks)))


def texts(svg: str) -> Counter[str]:
    """The texts of a drawing."""
    return Counter("".join(e.itertext()) for e in ET.fromstring(svg).iter(f"{SVG}text"))


def heads(svg: str, colour: str) -> int:
    """How many lines of a colour end as an arrow: every arrow is a path of its own."""
    return len(re.findall(rf'stroke="var\(--{colour},[^"]*" stroke-width="1"/>', svg)) // 2


@given(st.data())
@examples(30)
def test_everything_is_there_and_apart(data: st.DataObject) -> None:
    """Whatever the blocks: each line, question and frame is a text, each edge an arrow, and nothing overlaps."""
    many = data.draw(st.integers(1, 6))
    to = st.integers(0, many - 1)
    live = st.lists(st.sampled_from(NAMES), max_size=6, unique=True)
    asks = st.lists(st.tuples(st.sampled_from(CALLS), to, live), max_size=3)
    edges = st.lists(st.tuples(to, st.sampled_from(["", "except Refused"])), max_size=3, unique=True)
    code = st.lists(st.sampled_from(["if n:", "    return False", "x = item.price * n"]), min_size=1, max_size=3)
    blocks = []
    for n in range(many):
        lines = [(10 * n + at, f"        {words}") for at, words in enumerate(data.draw(code))]
        blocks.append(block(data.draw(live), lines, data.draw(edges), data.draw(asks)))
    picture = show.machine(method(blocks))
    said = " ".join(repr(picture).split("\n"))
    for drawing in picture.drawings:
        svg = drawing.svg("machine", alone=True)
        assert faults(svg, drawing.width) == []
        there = texts(svg)
        for number, each in enumerate(blocks):
            assert there[f"block {number}"] == 1
            assert all(there[words.strip()] >= 1 for _, words in each.lines)
            assert all(f"then block {ask[5]}" in said for ask in each.asks)
        questions = sum(len(each.asks) for each in blocks)
        assert there["frame"] == questions and there["except Refused"] == sum(
            label != "" for each in blocks for to, label in each.edges if not label.startswith("answer")
        )
        assert svg.count('class="node"') == many + questions
    wide = picture.drawing.svg("machine", alone=True)
    assert (heads(wide, "upquery"), heads(wide, "handle")) == (questions, questions)


def test_a_line_that_a_question_divides() -> None:
    """It ends with an ellipsis in the block that asks, and begins with one in the block of the answer."""
    cut = (15, "        total = n * item.price")
    first = block(["item", "n"], [cut], [], [(CALLS[0], 1, ["n"])])
    second = block(["n"], [cut, (16, "        return total")], [], [])
    picture = show.machine(method([first, second]), title="A purchase")
    there = texts(picture.drawing.svg("machine", alone=True))
    assert there["total = n * item.price …"] == there["… total = n * item.price"] == there["return total"] == 1
    assert repr(picture).splitlines() == [
        "A purchase",
        "block 0 asks item.price, frame n, then block 1",
        "block 1 ends",
    ]


def test_a_creation_is_written_as_one() -> None:
    """Who is created is asked for nothing else."""
    picture = show.machine(method([block([], [(1, "Item('apple', 3)")], [(0, "")], [(CALLS[2], 0, [])])]))
    assert "asks Item('apple', \"it's\", n < 3), frame empty, then block 0; goes to block 0" in repr(picture)
