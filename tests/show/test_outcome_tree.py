"""The tree of orders, and the marks of barriers and crashes in a space-time diagram."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import permutations

import pytest
from clear import faults
from hypothesis import given
from hypothesis import strategies as st
from support import examples

from sharedstate_lite import show
from sharedstate_lite.errors import Error

SVG = "{http://www.w3.org/2000/svg}"
BAR = re.compile(r'stroke-width="4.5"')


def labels(svg: str) -> dict[str, tuple[float, float]]:
    """Where each text stands; of equal texts, the last one."""
    found = ET.fromstring(svg).iter(f"{SVG}text")
    return {"".join(e.itertext()): (float(e.attrib["x"]), float(e.attrib["y"])) for e in found}


def test_orders_with_a_common_beginning_are_neighbours() -> None:
    """The leaves are sorted by branch, so no two branches cross, and the text lists each order with its outcomes."""
    orders = {
        ("a", "b", "c"): [("1", "right")],
        ("b", "a", "c"): [("2", "wrong")],
        ("a", "c", "b"): [("3", "")],
    }
    picture = show.outcome_tree(orders, ["total"], title="Orders")
    assert repr(picture).splitlines() == ["Orders", "a, b, c: total 1", "b, a, c: total 2 (wrong)", "a, c, b: total 3"]
    for drawing in picture.drawings:
        at = labels(drawing.svg("tree", alone=True))
        assert at["1"][1] < at["3"][1] < at["2"][1]
        assert at["total"][1] < at["1"][1]


@given(st.integers(2, 4), st.integers(1, 3), st.data())
@examples(20)
def test_nothing_in_the_tree_overlaps(many: int, wide: int, data: st.DataObject) -> None:
    """Nodes, cells and headings keep apart, whatever the orders, the words and the outcomes."""
    names = ["10", "|s1", "20", "|s22"][:many]
    every = list(permutations(names))
    orders = data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=12, unique=True))
    cell = st.tuples(st.sampled_from(["saves 3", "cannot happen", "13"]), st.sampled_from(["right", "wrong", ""]))
    cells = {order: data.draw(st.lists(cell, min_size=wide, max_size=wide)) for order in orders}
    picture = show.outcome_tree(cells, ["at the first barrier", "last", "x"][:wide], title="Every order")
    for drawing in picture.drawings:
        svg = drawing.svg("tree", alone=True)
        assert faults(svg, drawing.width) == []
        bars = sum(len({order[: n + 1] for order in orders if order[n].startswith("|")}) for n in range(many))
        assert len(BAR.findall(svg)) == bars


def test_a_tree_without_orders_or_cells_is_refused() -> None:
    """The errors name the order and the number of cells that it needs."""
    with pytest.raises(Error, match="no orders to draw"):
        show.outcome_tree({}, ["total"])
    with pytest.raises(Error, match="the order a, b has 1 cells for 2 columns"):
        show.outcome_tree({("a", "b"): [("1", "right")]}, ["x", "y"])


def test_barriers_and_crashes_have_marks_of_their_own() -> None:
    """A barrier is a bar across its line, not a chip, and the legend explains it. A crash is a cross on its lane."""
    lines = [("s1", "c", 1, 3, "|"), ("s2", "c", 2, 4, "10")]
    notes = {("s1", 5): "crash", ("c", 5): "crash, back to snapshot 1"}
    picture = show.space_time(lines, lanes=["s1", "s2", "c"], notes=notes)
    assert "s1 to c, sent at 1, taken at 3: |" in repr(picture)
    for drawing in picture.drawings:
        svg = drawing.svg("lines", alone=True)
        assert faults(svg, drawing.width) == []
        assert len(BAR.findall(svg)) == 2 and "barrier" in labels(svg)  # the message and the legend
        assert len(re.findall(r'class="load"', svg)) == 1
        assert svg.count("<circle") == 4  # the ends of the two lines; crashes are crosses
