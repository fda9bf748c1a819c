"""Space-time diagrams: lines cross exactly where the order of sending and of delivery differ, and nothing overlaps."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import combinations, pairwise
from math import inf
from typing import Any

import pytest
from clear import faults, read
from drawn import KINDS, seed, steppers
from hypothesis import given
from hypothesis import strategies as st
from support import examples

import sharedstate_lite as ss
from sharedstate_lite import show
from sharedstate_lite.plan.view import View
from sharedstate_lite.show.stepper import message_lines
from sharedstate_lite.show.stepper.recorded_messages import recorded

SVG = "{http://www.w3.org/2000/svg}"
WIDTHS = (560, 1280)
Point = tuple[float, float]


def lookers() -> View:
    """The view of rule 18: a count by product."""
    catalog = ss.Catalog(visit="product STRING, user STRING, length INT")
    return catalog.view("CREATE VIEW lookers AS SELECT product, COUNT(*) AS visits FROM visit GROUP BY product")


def wanted() -> View:
    """The view of rule 22: a union of two tables."""
    catalog = ss.Catalog(purchase="product STRING, user STRING", wish="product STRING, user STRING")
    rows = "SELECT product, user FROM"
    return catalog.view(f"CREATE VIEW wanted AS {rows} purchase UNION ALL {rows} wish")


def stories() -> View:
    """The view of rule 20: stories with a count by author, which is another key."""
    catalog = ss.Catalog(story="id INT, author STRING")
    catalog.view("CREATE VIEW by_author AS SELECT author, COUNT(*) AS stories FROM story GROUP BY author")
    columns = "s.id, s.author, a.stories"
    return catalog.view(f"CREATE VIEW stories AS SELECT {columns} FROM story s JOIN by_author a ON s.author = a.author")


EVE, DAN = ("Potato", "Eve", 60), ("Potato", "Dan", 5)
MOVED = [((7, "Elena"), -1), ((7, "Talia"), 1)]
PRINTED = {"story": [((7, "Elena"), 1), ((8, "Elena"), 1), ((9, "Talia"), 1)]}
RACES: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "rule18": (lookers, [{"visit": [(EVE, 1)]}], [("lookers", "Potato"), {"visit": [(DAN, 1)]}]),
    "rule22": (
        wanted,
        [{"purchase": [(("Potato", "Bob"), 1)]}, {"wish": [(("Potato", "Eve"), 1)]}],
        [("wanted", "Potato"), {"purchase": [(("Potato", "Dan"), 1)]}, {"wish": [(("Potato", "Ann"), 1)]}],
    ),
    "rule20": (stories, [PRINTED, ("stories", 7)], [{"story": MOVED}, ("stories", 8), ("stories", 9)]),
}
"""Each race: its view, what was done before, and what is done while messages wait."""


class Log:
    """Plays a race on an engine that nobody records, and writes down when each message was sent and taken."""

    def __init__(self, view: View, past: list[Any], without: tuple[str, ...]) -> None:
        self.engine, self.without, self.now = ss.engine("partial", [view], without=without), without, 0
        nodes, edges = self.engine.graph()
        self.maps = set(nodes.loc[nodes["kind"] == "map", "name"])
        """Projections: a recording does not show them, and messages pass through them at once."""
        self.edges = set(zip(edges["source"], edges["target"], strict=True))
        self.history: list[Any] = []
        self.sent: list[tuple[str, str]] = []
        """The ends of each message that was sent since the pause."""
        self.ends: list[list[float]] = []
        """When each was sent and taken."""
        self.waiting: list[int] = []
        for action in past:
            self._act(action)
        self.engine.pause()
        self.history.append(("pause",))

    def _act(self, action: Any) -> None:
        if isinstance(action, dict):
            self.engine.step(action)
            self.history.append(action)
        else:
            self.engine.read(*action)
            self.history.append(("read", *action))

    def turn(self, action: Any = None, edge: tuple[str, str] | None = None) -> None:
        """Perform an action, or deliver the oldest message on an edge."""
        self.now += 1
        if edge is None:
            self._act(action)
        else:
            at = [m.edge for m in self.engine.messages()].index(edge)
            self.engine.deliver(at)
            if edge[1] in self.maps:
                self.engine.deliver(len(self.waiting) - 1)
            self.history.append(("deliver", *self.through(edge)))
            self.ends[self.waiting.pop(at)][1] = self.now
        for message in self.engine.messages()[len(self.waiting) :]:
            self.waiting.append(len(self.sent))
            self.sent.append(self.through(message.edge))
            self.ends.append([self.now, inf])

    def through(self, edge: tuple[str, str]) -> tuple[str, str]:
        """The ends of a message, without the projection that it passes."""
        source, target = edge
        if target in self.maps:
            target = next(b if a == target else a for a, b in self.edges if target in (a, b) and source not in (a, b))
        return source, target

    def crossings(self, lanes: list[str]) -> set[tuple[int, int]]:
        """The pairs that pass two lanes in opposite orders. A message is on every lane but the last when it is sent."""
        sides = []
        for (source, target), (sent, taken) in zip(self.sent, self.ends, strict=True):
            a, b = lanes.index(source), lanes.index(target)
            at = dict.fromkeys(range(min(a, b), max(a, b) + 1), sent) | {b: taken}
            sides.append(at)
        out = set()
        for one, other in combinations(range(len(sides)), 2):
            orders = {n: _order(sides[one][n], at) for n, at in sides[other].items() if n in sides[one]}
            if {-1, 1} <= set(orders.values()):
                out.add((one, other))
        return out


def _order(a: float, b: float) -> int:
    return (a > b) - (a < b)


def lines(svg: str) -> dict[int, list[Point]]:
    """The corners of each message's line, as they are drawn."""
    out = {}
    for group in ET.fromstring(svg).iter(SVG + "g"):
        if "data-message" in group.keys():
            numbers = [float(n) for n in re.findall(r"-?[\d.]+", group.find(SVG + "path").get("d", ""))]  # type: ignore[union-attr]
            out[int(group.get("data-message", ""))] = list(zip(numbers[::2], numbers[1::2], strict=True))
    return out


def cross(one: list[Point], other: list[Point]) -> bool:
    """Whether two lines cross: the ends of a stretch of each lie on different sides of a stretch of the other."""

    def side(a: Point, b: Point, p: Point) -> float:
        return (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0])

    return any(
        side(a, b, c) * side(a, b, d) < -1 and side(c, d, a) * side(c, d, b) < -1
        for a, b in pairwise(one)
        for c, d in pairwise(other)
    )


def drawn_crossings(svg: str) -> set[tuple[int, int]]:
    """The pairs of messages whose lines cross in a drawing."""
    found = lines(svg)
    return {(a, b) for a, b in combinations(sorted(found), 2) if cross(found[a], found[b])}


def clear(svg: str, width: float) -> list[str]:
    """What is wrong with a drawing: what overlaps, sticks out or is too small, and chips on events or crossings."""
    scene, _, _ = read(svg)
    out = [f for f in faults(svg, width) if "line" not in f]
    for load in scene.loads:
        for each in ET.fromstring(svg).iter(SVG + "circle"):
            x, y = float(each.get("cx", "")), float(each.get("cy", ""))
            if load.x0 < x < load.x1 and load.y0 < y < load.y1:
                out.append(f"{load.what} lies on an event")
    return out


def played(name: str, data: st.DataObject) -> tuple[Log, list[str]]:
    """A race in a drawn order, with or without its fix, and its lanes in a drawn order."""
    make, past, actions = RACES[name]
    log, left = Log(make(), past, data.draw(st.sampled_from([(), (name,)]))), list(actions)
    for _ in range(data.draw(st.integers(1, 12))):
        edges = list(dict.fromkeys(m.edge for m in log.engine.messages()))
        choices = [*edges, *([None] if left else [])]
        if not choices:
            break
        edge = data.draw(st.sampled_from(choices))
        log.turn(None if edge else left.pop(0), edge)
    names = [name for name in log.engine.graph()[0]["name"] if name not in log.maps]
    return log, data.draw(st.sampled_from([names, data.draw(st.permutations(names))]))


@pytest.mark.parametrize("name", RACES)
@examples(25)
@given(data=st.data())
def test_lines_cross_where_orders_differ(name: str, data: st.DataObject) -> None:
    """In any order of delivery and of lanes, the lines that cross are those of messages that pass each other."""
    log, lanes = played(name, data)
    make, past, _ = RACES[name]
    run = ss.replay("partial", [make()], without=log.without)(log.history)
    begin = run.messages[len(past)].first + 1
    made = recorded(run, begin, run.last, lanes=lanes)
    # The k-th message of an edge is its k-th line: an edge is first in, first out.
    number: dict[int, int] = {}
    for n, edge in enumerate(log.sent):
        same = [at for at, m in enumerate(made.lines) if (m.source, m.target) == edge]
        number[n] = same[log.sent[:n].count(edge)]
    assert len(made.lines) == len(log.sent)
    wanted = {tuple(sorted((number[a], number[b]))) for a, b in log.crossings(lanes)}
    for width in WIDTHS:
        svg = made.draw(width).svg("x", alone=True)
        assert drawn_crossings(svg) == wanted
        assert clear(svg, width) == []


def dan_is_lost(**options: Any) -> Any:
    """The race of rule 18 without its fix: Dan's change passes the question on its way to COUNT, and is dropped."""
    history = [("visit", EVE), ("pause",), ("read", "lookers", "Potato"), ("visit", DAN)]
    history += [("deliver", "visit", "lookers.group1"), ("resume",)]
    return ss.replay("partial", [lookers()], without={"rule18"})(history)


def test_straight_lines_would_hide_a_crossing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line drawn straight over a lane between would not cross the one that it overtakes; so the test can fail."""
    messages = [("info", "union", 1, 8), ("wish", "union", 2, 7), ("wish", "union", 6, 9)]
    lanes = {name: (name, "") for name in ("info", "wish", "union")}
    made = message_lines.SpaceTime(lanes, [message_lines.MessageLine(*m) for m in messages])
    assert drawn_crossings(made.draw(560).svg("x", alone=True)) == {(0, 1)}
    path = message_lines._Drawn._path
    monkeypatch.setattr(message_lines._Drawn, "_path", lambda *a: [path(*a)[0], path(*a)[-1]])
    assert drawn_crossings(made.draw(560).svg("x", alone=True)) == set()


def test_the_race_of_rule_18() -> None:
    """Everything that happened is in the picture: texts, the dropped change, the read and its wrong answer."""
    picture = show.space_time(dan_is_lost(), lanes=["visit", "lookers", "lookers.group1"])
    for drawing in picture.drawings:
        svg = drawing.svg("x", alone=True)
        texts = {e.text for e in ET.fromstring(svg).iter(SVG + "text")}
        assert {
            "visit",
            "COUNT(*)",
            "by product",
            "Potato  Dan  5",
            "read Potato",
            "answer: Potato 1",
            "dropped",
        } <= texts
        assert drawn_crossings(svg) == {(0, 1)} and clear(svg, drawing.width) == []
    assert [d.width <= room for d, room in zip(picture.drawings, (1100, 800, 560), strict=False)].count(False) == 0
    said = repr(picture).splitlines()
    assert said[2] == "visit to lookers.group1, sent at 5, taken at 6: +1 Potato  Dan  5 (dropped)" and len(said) == 6
    assert "COUNT(*)" in picture._repr_html_() and "--muted" in picture._repr_svg_()


def test_in_flight_and_marked() -> None:
    """A message in flight ends in an open circle; words mark one that is sent twice, and its line is double."""
    run = dan_is_lost()
    open_ = show.space_time(run, last=5).drawing.svg("x", alone=True)
    assert open_.count("in flight</text>") == 1 and "in flight" not in show.space_time(run)._repr_svg_()
    double = show.space_time([("a", "b", 1, 2, "+1 x"), ("a", "b", 1, 4, "+1 x", "sent twice")], unit="second")
    svg = double.drawing.svg("x", alone=True)
    assert "sent twice" in svg and ">second<" in svg and svg.count('stroke-width="5"') == 1
    assert clear(svg, 560) == [] and double.drawing.width < 560
    noted = show.space_time(run, marks={9: "counted twice"}, notes={("lookers.group1", 6): "a hole"})._repr_svg_()
    assert "counted twice" in noted and "a hole" in noted
    crash = show.space_time([("a", "b", 1, 2, "-1 x")], notes={("b", 4): "crash"}).drawing.svg("x", alone=True)
    assert "crash" in crash and crash.count("<circle") == 2 and ">−1<" in crash


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: show.space_time([("a", "b", 2, 2)]), "a to b, sent at 2, taken at 2: a message must be taken after"),
        (lambda: show.space_time([("a", "a", 1, 2)]), "from a to itself"),
        (lambda: show.space_time([("a", "b", 1, 2)], lanes=["a"]), "lane 'b' does not exist; the lanes are a"),
        (lambda: show.space_time([("a", "b", 1, 2)], notes={("c", 1): "x"}), "lane 'c' does not exist"),
        (lambda: show.space_time([]), "no lanes"),
        (lambda: show.space_time(dan_is_lost(), lanes=["nobody"]), "the operators are visit"),
        (lambda: show.space_time(dan_is_lost(), first=9), "message 9 does not exist; use 1 to 6"),
    ],
)
def test_what_cannot_be_drawn(make: Any, word: str) -> None:
    """What cannot be drawn is an error that says why."""
    with pytest.raises(ss.Error, match=re.escape(word)):
        make()


@examples(10)
@given(made=steppers())
def test_views_that_nobody_has_shown(made: show.Stepper) -> None:
    """Views with up to eleven lanes and long, odd and absent values are clear."""
    for number in (made.recording.last // 2, made.recording.last):
        drawn = recorded(made.recording, 1, number)
        assert all(m.sent <= number and (m.taken or 0) <= number for m in drawn.lines)
        for width in WIDTHS:
            assert clear(drawn.draw(width).svg("x", alone=True), width) == []


@pytest.mark.parametrize("kind", KINDS)
def test_texts_fit(kind: str) -> None:
    """At 800 px, every message of the seed shows its whole text."""
    made = seed(kind)
    for number in range(10, made.recording.last + 1, 10):
        begin = max(1, number - 9)
        told = recorded(made.recording, begin, number)
        drawn = told.draw(800).svg("x", alone=True)
        chips = [g for g in ET.fromstring(drawn).iter(SVG + "g") if g.get("class") == "load"]
        texts = ["".join(e.text or "" for e in chip.iter(SVG + "text")) for chip in chips]
        assert len(chips) == len(lines(drawn))
        assert {t.replace(" ", "") for t in texts} <= {m.text.replace(" ", "") for m in told.lines}


def test_chips_would_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing kept free, chips lie on each other and on events, and the check says so; so it can fail."""
    many = [("a", "b", 1, n, "+1 Potato Dan 5") for n in range(4, 12)]
    drawn = show.space_time(many).drawing
    assert clear(drawn.svg("x", alone=True), drawn.width) == []
    monkeypatch.setattr(message_lines, "meets", lambda a, b: False)
    found = clear(show.space_time(many).drawing.svg("x", alone=True), drawn.width)
    assert any("meets" in fault for fault in found), found
