"""A recording matches what the engine did, and what an engine does that is not observed."""

from __future__ import annotations

import re
from typing import Any

import pytest
from cases import CASES
from hypothesis import given
from hypothesis import strategies as st
from replayed import check, check_steps
from sqlgen import COLUMNS, DECLARED, ROW, expressions
from support import ENGINES, case_names, epochs, examples, keys_of, labels, make, relations_of, tuples

import sharedstate_lite as ss
from sharedstate_lite import show
from sharedstate_lite.plan.view import View
from sharedstate_lite.replay.messages import Deliver, Drop, Epoch, Evict, Hold, Read


@st.composite
def histories(draw: Any, shown: View, kind: str) -> list[Any]:
    """Epochs with reads, evictions and a mistake between them."""
    out: list[Any] = []
    for epoch in draw(epochs(relations_of(shown), most=4)):
        out.append(dict(epoch.items()))
        for _ in range(draw(st.integers(0, 2))):
            action = draw(st.sampled_from(["read", "read", "evict", "wrong", "whole"]))
            if action == "read":
                out.append(("read", shown.name, draw(keys_of(shown))))
            elif action == "whole":
                out.append(("read", shown.name))
            elif action == "evict" and kind == "partial":
                out.append(("evict", shown.name, draw(st.none() | keys_of(shown))))
            elif action == "wrong":
                out.append(Epoch((("visit", ("nowhere", "nobody", 99), -1),)))
    return out


@case_names
def test_a_recording_is_what_the_engine_did(name: str) -> None:
    """After every message, tables, sizes, emissions, answers and rows by edge equal those of a separate engine."""
    case = CASES[name]
    catalog, views = case.declare()
    for label in labels(case, views[-1]):
        played(label, views[-1], catalog)


def played(label: str, shown: View, catalog: ss.Catalog) -> None:
    """Histories of one view under one engine."""
    kind, options = ENGINES[label]

    @examples(1)
    @given(histories(shown, kind))
    def run(history: list[Any]) -> None:
        check(ss.replay(kind, [shown], **options)(history), make(label, [shown]), catalog)

    run()


@pytest.mark.parametrize("label", ["full", "shared", "partial"])
def test_views_that_come_late_and_go(label: str) -> None:
    """An installed view adds its operators and tables at its message, and a dropped one removes them."""
    kind, options = ENGINES[label]

    @examples(6)
    @given(st.data())
    def run(data: Any) -> None:
        catalog, views = CASES["view over views over views"].declare()
        more = catalog.view("CREATE VIEW visits AS SELECT category, COUNT(*) AS n FROM info JOIN visit USING (product) "
                            "GROUP BY category")  # fmt: skip
        other = catalog.view("CREATE VIEW towns AS SELECT DISTINCT city FROM person")
        history: list[Any] = []
        for epoch in data.draw(epochs(["info", "visit", "person"], most=5)):
            history.append(epoch)
            history.append(
                data.draw(
                    st.sampled_from(
                        [("install", "visits"), ("drop", "visits"), ("install", "towns"), ("drop", "result")]
                        + [("install", "result"), ("read", "visits", "a"), ("read", "result", "a")]
                        + ([("hold", f"slow {len(history)}", len(history) // 2)] if kind == "shared" else [])
                    )
                )
            )
        recording = ss.replay(kind, [views[-1]], **options)(history)
        check(recording, make(label, [views[-1]]), catalog)
        assert {more.name, other.name, views[-1].name} >= {o.name for o in recording.operators if o.kind == "view"} - {
            v.name for v in views
        }

    run()


def test_a_late_view_is_there_from_its_message_on() -> None:
    """The recording lists the operators of the whole run, with the messages that add and remove them."""
    catalog, views = CASES["shopping"].declare()
    catalog.view("CREATE VIEW visits AS SELECT product, COUNT(*) AS n FROM visit GROUP BY product")
    history = [("visit", ("a", "b", 1)), ("install", "visits"), ("visit", ("a", "b", 1)), ("drop", "visits")]
    recording = ss.replay("full", views)(history)
    late = {o.name: (o.added_at, o.removed_at) for o in recording.operators if o.view == "visits"}
    assert set(late.values()) == {(2, 4)} and "visits" in late
    last = [recording.messages[n].last for n in range(4)]
    assert [("visits" in {o.name for o in recording.graph_at(n)[0]}) for n in (0, *last)] == [
        False,
        False,
        True,
        True,
        False,
    ]
    assert [row["values"] for row in recording.state(last[1])["visits"]["tables"][0]["rows"]] == [["a", "1"]]
    assert recording.state(last[0])["visits"]["tables"] == [] == recording.state(last[3])["visits"]["tables"]


@pytest.mark.parametrize("budget", [{"max_rows": 3}, {"max_bytes": 200}])
def test_a_budget_evicts_in_steps_of_its_own(budget: dict[str, int]) -> None:
    """Evictions by a budget are steps, and the tables equal those of a separate engine."""
    case = CASES["join of an aggregate"]

    @examples(8)
    @given(st.data())
    def run(data: Any) -> None:
        catalog, views = case.declare()
        history = data.draw(histories(views[-1], "partial"))
        recording = ss.replay("partial", [views[-1]], seed=3, **budget)(history)
        check(recording, make("partial", [views[-1]], seed=3, **budget), catalog)

    run()


@pytest.mark.parametrize("name", ["shopping", "incongruent", "union of aggregates", "left join of an aggregate"])
def test_any_order_of_arrival_can_be_stepped(name: str) -> None:
    """In any order of delivery, each delivery is one step, and the final reads are right."""

    @examples(3)
    @given(st.data())
    def run(data: Any) -> None:
        _, views = CASES[name].declare()
        shown = views[-1]
        history: list[Any] = [*data.draw(epochs(relations_of(shown), most=3)), ("pause",)]
        replay = ss.replay("partial", [shown])
        for _ in range(12):
            recording = replay(history)
            waiting = recording.waiting(recording.last)
            first = {(m.source, m.target): m for m in reversed(waiting)}
            actions = [("deliver", *edge) for edge in first] * 3
            if len(history) < 9:
                actions += [("read", shown.name, key) for key in [data.draw(keys_of(shown))]]
                actions += [Epoch((("visit", ("a", "b", data.draw(st.integers(0, 9))), 1),))]
            if not actions:
                break
            history.append(data.draw(st.sampled_from(actions)))
            after = replay(history)
            told = after.messages[-1]
            assert not told.refused, told
            if history[-1][0] == "deliver" if isinstance(history[-1], tuple) else False:
                step = after.step(told.first)
                assert step is not None and told.first == told.last
                assert [(m.source, m.target) for m in step.taken] == [history[-1][1:]]
                assert step.taken[0].number == first[history[-1][1:]].number
        reads = [h for h in history if isinstance(h, tuple) and h[0] == "read"]
        recording = replay([*history, ("resume",), *reads])
        assert recording.waiting(recording.last) == ()
        check_steps(recording)
        twin = ss.engine("full", [shown])
        for told in recording.messages:
            if isinstance(told.message, Epoch):
                for relation, row, diff in told.message.changes:
                    twin.step({relation: [(row, diff)]}) if len(told.message.changes) == 1 else None
                if len(told.message.changes) > 1:
                    inputs: dict[str, list[Any]] = {}
                    for relation, row, diff in told.message.changes:
                        inputs.setdefault(relation, []).append((row, diff))
                    twin.step(inputs)
        answers = [recording.steps[t.last - 1].answer for t in recording.messages[len(history) + 1 :]]
        assert answers == [tuple(tuples(twin.read(shown.name, key=key))) for _, _, key in reads]

    run()


@pytest.mark.parametrize("kind", ["full", "shared", "partial"])
def test_drawn_sql_can_be_stepped(kind: str) -> None:
    """Views of drawn expressions over every type, grouped and not, are recorded as they run."""

    @examples(6)
    @given(st.data())
    def run(data: Any) -> None:
        catalog = ss.Catalog(r=DECLARED)
        kinds = data.draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=2))
        columns = [f"{data.draw(expressions(k, 2))} AS c{n}" for n, k in enumerate(kinds)]
        where = data.draw(expressions("BOOLEAN", 2))
        inner = catalog.view(f"CREATE VIEW inner_ AS SELECT s, {', '.join(columns)} FROM r WHERE {where} OR p")
        sums = ", ".join(f"MAX(c{n}) AS m{n}, MIN(c{n}) AS l{n}, COUNT(c{n}) AS n{n}" for n in range(len(kinds)))
        outer = catalog.view(f"CREATE VIEW v AS SELECT s, {sums} FROM inner_ GROUP BY s")
        shown = data.draw(st.sampled_from([inner, outer]))
        rows = data.draw(st.lists(ROW, min_size=1, max_size=5))
        at = [n for names in COLUMNS.values() for n in names].index("s")
        history: list[Any] = [("r", row) for row in rows]
        history += [("read", shown.name, (row[at],)) for row in rows[:2]]
        history += [("r", rows[0], -1), ("r", rows[-1])]
        check(ss.replay(kind, [shown])(history), ss.engine(kind, [shown]), catalog)

    run()


ODD = st.text("ab \t;,'\"([)]−+😀", max_size=5) | st.sampled_from(["NULL", "visit", "read", "+1 a"])


@examples(100)
@given(text=ODD, number=st.integers(-9, 9), name=st.text("a b;,'\"([.é", min_size=1, max_size=4))
def test_the_text_of_a_message_parses_to_it(text: str, number: int, name: str) -> None:
    """The text of a message parses to the same message, for any names and values."""
    catalog = ss.Catalog(**{f"r{name}": "s STRING, i INT, t STRING"})
    quoted = name.replace('"', '""')
    view = catalog.view(f'CREATE VIEW "v{quoted}" AS SELECT s FROM "r{quoted}"')
    total = catalog.view(f'CREATE VIEW "{quoted}" AS SELECT COUNT(*) AS n FROM "r{quoted}"')
    read = ss.replay("partial", [view]).message
    row = (text, number, None)
    for message in (
        Epoch(((f"r{name}", row, 1), (f"r{name}", row, -number - 10))),
        Read(view.name, (text,)),
        Read(view.name),
        Read(total.name, ()),
        Evict(view.name, (text,)),
        Drop(view.name),
        Deliver(f"r{name}", view.name),
        Hold(f"x{name}", 3),
    ):
        assert read(message.text) == message


@pytest.mark.parametrize("given", ["+" + "9" * 5000 + " visit a, b, 1", "hold x ²"])
def test_numbers_with_too_many_digits_are_refused(given: Any) -> None:
    """A number with thousands of digits is refused in its place, like any invalid message."""
    view = ss.Catalog(visit="p STRING, u STRING, i INT").view("CREATE VIEW v AS SELECT p FROM visit")
    assert ss.replay("shared", [view])([given]).messages[0].refused


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("deliver", "visit", "v.grup1"), "operator v.grup1 does not exist; the operators are visit, v.group1, v"),
        (("deliver", "v", "visit"), "edges with waiting messages: v -> v.group1"),
        (("delivr", "visit", "v.group1"), "delivr is neither a relation (visit) nor one of read, evict, "),
        (("pauze",), "pauze is neither a relation (visit) nor one of"),
        (("read", "w", "a"), "view w does not exist; the views are v"),
    ],
)
def test_a_program_with_a_misspelt_name_is_refused(given: Any, says: str) -> None:
    """The recording has the error in the place of the message; a picture of it raises it, with what exists."""
    view = ss.Catalog(visit="p STRING").view("CREATE VIEW v AS SELECT p, COUNT(*) AS n FROM visit GROUP BY p")
    recording = ss.replay("partial", [view])([("pause",), ("read", "v", "a"), given, ("resume",)])
    assert [says in message.refused for message in recording.messages] == [False, False, True, False]
    with pytest.raises(ss.Error, match=f"^message 3, .*{re.escape(says)}"):
        show.space_time(recording)
    show.space_time(show.stepper(ss.replay("partial", [view]), [("pause",), given]))  # it shows the error itself


def test_one_fix_is_given_by_its_name() -> None:
    """``without="rule18"`` is the set of this rule, and an unknown name is refused."""
    view = ss.Catalog(visit="p STRING").view("CREATE VIEW v AS SELECT p FROM visit")
    assert ss.replay("partial", [view], without="rule18")._make().without == {"rule18"}
    for odd in ("rule19", {"rule18", "rule19"}, 18):
        with pytest.raises(ss.ViewError, match="it can contain rule18, rule20, rule22"):
            ss.replay("partial", [view], without=odd)  # type: ignore[arg-type]


def test_zeros_before_the_number_of_a_change_do_not_count() -> None:
    """A change typed with 50 leading zeros has the number behind them."""
    view = ss.Catalog(visit="p STRING").view("CREATE VIEW v AS SELECT p FROM visit")
    typed = ss.replay("shared", [view])([f"+{'0' * 50}3 visit a", f"-{'0' * 50}1 visit a"])
    assert [message.text for message in typed.messages] == ["+3 visit a", "-1 visit a"]


def test_a_refused_row_rolls_its_messages_back() -> None:
    """A paused engine rolls back a refused row: its messages vanish, and delivered ones are in flight again."""
    catalog = ss.Catalog(r="k STRING, n INT")
    most = catalog.view("CREATE VIEW most AS SELECT k, MAX(n) AS n FROM r GROUP BY k")
    view = catalog.view("CREATE VIEW v AS SELECT k, n * 2 AS d FROM most")
    change, arrives = ("r", ("a", 2)), ("deliver", "r", "most.group1")
    history: list[Any] = [("r", ("a", 1)), ("read", "v", "a"), ("pause",), change, ("r", ("a", 2**31 - 1))]
    recording = ss.replay("partial", [view, most])(
        [*history, arrives, arrives, ("resume",), ("r", ("a", 3)), ("resume",), ("read", "v", "a")]
    )
    refused = recording.messages[7]
    assert "rolled back" in refused.refused and refused.epoch == 2
    step = recording.steps[refused.first - 1]
    assert [(m.source, m.target, m.kind) for m in step.sent] == [("r", "most.group1", "change")]
    moves = [m for s in recording.steps for m in s.sent]
    assert all(m.taken is not None for m in moves)
    assert recording.steps[-1].answer == (("a", 6),)
    stepper = show.stepper(ss.replay("partial", [view, most]), [m.message for m in recording.messages], at=8)
    assert "rolled back" in stepper.data()["messages"][7]["refused"]
