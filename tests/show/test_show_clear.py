"""The stepper's pictures: nothing lies on anything, whatever the view, the step and the width."""

from __future__ import annotations

from typing import Any

import pytest
from cases import CASES
from clear import faults, read
from drawn import KINDS, TAKEN, WIDTHS, of_case, seed, steppers
from handmade import recording
from hypothesis import given
from hypothesis import strategies as st
from support import examples

import sharedstate_lite as ss
from sharedstate_lite import show
from sharedstate_lite.lessons.demo import SCHEMA, SQL
from sharedstate_lite.replay.messages import Read
from sharedstate_lite.show.stepper import Stepper, diagram, diagram_layout, fitting, frames, table_blocks
from sharedstate_lite.show.stepper.cells import Cell
from sharedstate_lite.show.stepper.fitting import RULED, TALLEST
from sharedstate_lite.show.stepper.frames import Frames
from sharedstate_lite.show.stepper.table_blocks import TableBlock, TableLine


def check(made: Stepper, number: int, width: int) -> None:
    """One step at one width is clear, alone and as a page."""
    tallest = 16 + (RULED if made.recording.kind == "shared" else TALLEST)
    scene = made.frames.scene(number, width).svg("scene", alone=True)
    assert faults(scene, width, tallest) == [], (number, width)
    if number % 4 == 0:
        page = made.frames.page(number, width).svg("page", alone=True)
        assert [f for f in faults(page, width) if "line" not in f] == [], (number, width)


@pytest.mark.parametrize("width", (560, 800, 1100))
@pytest.mark.parametrize("kind", KINDS)
def test_every_step_of_the_seed_is_clear(kind: str, width: int) -> None:
    """Under every strategy, each step of the shopping visits is clear at three widths and low enough."""
    made = seed(kind)
    for number in range(made.recording.last + 1):
        check(made, number, width)


@pytest.mark.parametrize("at", range(len(CASES)), ids=CASES.keys())
def test_every_kind_of_view_is_clear(at: int) -> None:
    """Each kind of view that the rules are tested over is clear, under one strategy and at one width of all."""
    case = list(CASES.values())[at]
    kind = KINDS[at % 3] if case.partial else KINDS[at % 2]
    made = of_case(case, kind)
    for number in range(1 + at % 5, made.recording.last + 1, 5):
        check(made, number, WIDTHS[at % len(WIDTHS)])


def test_what_is_left_out_is_refused() -> None:
    """The cases that are not drawn are those that partial state is known to refuse, and no others."""
    left = {(kind, name) for kind in KINDS for name in CASES} - set(TAKEN)
    assert left == {("partial", name) for name, case in CASES.items() if not case.partial}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), TAKEN)
def test_every_view_and_step_is_clear(kind: str, name: str) -> None:
    """Each kind of view is clear under every strategy that takes it, at every width, in every step."""
    made = of_case(CASES[name], kind)
    for width in WIDTHS:
        for number in range(made.recording.last + 1):
            check(made, number, width)


@examples(10)
@given(made=steppers(), data=st.data())
def test_views_that_nobody_has_shown_are_clear(made: Stepper, data: st.DataObject) -> None:
    """Views over up to three relations and eight operators, with long, odd and absent values, are clear."""
    width = data.draw(st.sampled_from(WIDTHS))
    for number in range(made.recording.last + 1):
        check(made, number, width)


def test_a_line_ends_at_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a line runs through what a message is called, the word has a ground; without it the check sees the line."""
    catalog = ss.Catalog(g="k DOUBLE", f="k DOUBLE, d DATE, n INT, s STRING, t STRING")
    joined = "g x JOIN f y ON x.k = y.k JOIN f z ON y.n = z.n AND y.s = z.t"
    three = f"SELECT y.n AS m, COUNT(*) AS c FROM {joined} GROUP BY y.n"
    three, itself = f"CREATE VIEW a AS {three}", "CREATE VIEW b AS SELECT y.k AS k FROM g x, g y WHERE y.k = x.k"
    replayed = ss.replay("full", [catalog.view(three), catalog.view(itself)], columns="all")
    made = show.stepper(replayed, ["+1 f -7.0 NULL 2 'x' A"])

    def drawn() -> list[str]:
        return faults(made.frames.scene(1, 600).svg("x", alone=True), 600)

    assert drawn() == []
    monkeypatch.setattr(diagram_layout, "rect", lambda *where, **how: "")
    assert drawn() == ["a line runs through '1, now'"]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_moves_from_step_to_step(kind: str) -> None:
    """At 1100 px the panels of the shopping visits stand in one place in every step."""
    made = seed(kind)
    places = {
        tuple((p.what, p.x0, p.y0, p.x1, p.y1) for p in read(made.frames.scene(n, 1100).svg("x", alone=True))[0].panels)
        for n in range(made.recording.last + 1)
    }
    assert len(places) == 1


BROKEN: list[tuple[str, list[tuple[Any, str, Any]], str]] = [
    ("partial", [(diagram_layout, "SHIFT", 2.0), (diagram_layout, "meets", lambda a, b: False)], "meets"),
    ("full", [(table_blocks, "ROW", 7.0)], "lies on"),
    ("full", [(table_blocks, "BETWEEN", -30.0)], "lies on"),
    ("full", [(diagram_layout, "ROOM", -60.0)], "meets"),
    ("tall", [(fitting, "TALLEST", 2000.0)], "px high"),
    ("full", [(fitting, "MARGIN", -300.0)], "px wide"),
    ("full", [(frames, "CAPTION", 9)], "has 9.0 px"),
]


@pytest.mark.parametrize(("what", "patches", "word"), BROKEN, ids=[b[1][0][1] for b in BROKEN])
def test_a_broken_rule_is_seen(
    what: str, patches: list[tuple[Any, str, Any]], word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one measure of the layout broken, the check says what is wrong; so it can fail."""
    for module, name, value in patches:
        monkeypatch.setattr(module, name, value)
    made = of_case(CASES["chain of three, two keys"], "full", 40) if what == "tall" else seed(what)
    found = [
        fault
        for width in (1400, 560)
        for n in range(0, made.recording.last + 1, 5)
        for fault in faults(made.frames.page(n, width).svg("x", alone=True), width, 312 + 150)
    ]
    assert any(word in fault for fault in found), found[:5]


def test_a_recording_needs_no_engine() -> None:
    """A recording written by hand is drawn like a recorded one: what is drawn is what it says."""
    drawn = Frames(recording(), "By hand").page(3, 1000).svg("x", alone=True)
    assert [f for f in faults(drawn, 1000) if "line" not in f] == []
    for words in ("By hand", "step 3, now", "−U", "+U", ">50<", ">60<", "MAX(length)", "MAX kept 50 and added 60."):
        assert words in drawn


def test_long_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where not every step can be measured beforehand, one that needs more room gets it when it is looked at."""
    monkeypatch.setattr(diagram, "SHOWN", 4)
    made = seed("full")
    assert len(made.frames.diagram.seen) < made.recording.last
    for number in range(made.recording.last + 1):
        check(made, number, 800)


@pytest.mark.parametrize("kind", KINDS)
def test_histories_of_nothing(kind: str) -> None:
    """A history without messages, and one of messages that cannot be taken, are drawn, and can be forked."""
    view = ss.Catalog(**SCHEMA).view(SQL)
    for messages in ([], ["nonsense", ("visit", ("Apple", "Ann", "long")), Read("nobody")]):
        made = show.stepper(ss.replay(kind, [view]), messages)
        for width in (560, 1100):
            for number in range(made.recording.last + 1):
                check(made, number, width)
        assert made.next().back().end().step == min(1, len(messages)) and made.widget.history["last"] == len(messages)
        made.fork(1, "+1 visit Apple, Ann, 3", insert=True)
        assert made.recording.messages[0].refused == "" and made.next().step == 1


def test_large_tables_are_counted() -> None:
    """A table of many rows shows eight lines at most and counts the rest; marked rows are among those shown."""
    lines = tuple(TableLine((Cell(str(n)),), "inserted" if n == 150 else "", marked=n == 150) for n in range(200))
    shown, more = TableBlock(("n",), (True,), lines, 3).cut(8)
    assert len(shown) == 7 and more == "196 more rows" and shown[-1].marked
