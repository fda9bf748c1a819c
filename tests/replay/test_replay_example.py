"""Recordings checked by hand: the shopping visits message by message, large tables, and what is refused."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from replayed import rows_of

import sharedstate_lite as ss
from sharedstate_lite.lessons.demo import MESSAGES, view
from sharedstate_lite.oracle import Oracle, difference
from sharedstate_lite.replay.messages import Epoch
from sharedstate_lite.replay.recording import RowChange


def test_eves_potato_under_full_state() -> None:
    """Eve's visit: the table, the join's note and look-up, MAX from 50 to 60, and the view's -U and +U."""
    recording = ss.replay("full", [view()])(MESSAGES)
    eve = recording.messages[8]
    assert (eve.text, eve.epoch, eve.last - eve.first) == ("+1 visit Potato, Eve, 60", 9, 3)
    steps = recording.steps[eve.first - 1 : eve.last]
    assert [(s.kind, s.operator) for s in steps] == [
        ("arrive", "visit"),
        ("change", "result.join1"),
        ("change", "result.group1"),
        ("change", "result"),
    ]
    assert [[(m.source, m.target, list(m.rows)) for m in s.sent] for s in steps] == [
        [("visit", "result.join1", [RowChange(("Potato", 60), 1)])],
        [("result.join1", "result.group1", [RowChange(("Vegetable", 60), 1)])],
        [("result.group1", "result", [RowChange(("Vegetable", 50), -1, "-U"), RowChange(("Vegetable", 60), 1, "+U")])],
        [],
    ]
    join = recording.state(steps[1].number)["result.join1"]["tables"]
    assert [(table["caption"], table["total"]) for table in join] == [("info side", 4), ("visit side", 5)]
    assert [row for row in join[0]["rows"] if len(row) > 1] == [{"values": ["Potato", "Vegetable"], "looked": True}]
    assert [row for row in join[1]["rows"] if len(row) > 1] == [{"values": ["Potato", "60"], "before": 0, "now": True}]
    before, after = (
        recording.state(n)["result.group1"]["tables"][0]["groups"] for n in (steps[1].number, steps[2].number)
    )
    assert [(g["key"], [i["values"] for i in g["bags"][0]["items"]], g["result"]["values"]) for g in before] == [
        (["Fruit"], [["10"], ["20"], ["40"]], ["40"]),
        (["Vegetable"], [["50"]], ["50"]),
    ]
    assert after[1]["bags"][0]["items"] == [{"values": ["50"]}, {"values": ["60"], "before": 0, "now": True}]
    assert (after[1]["result"]["old"], after[1]["result"]["values"]) == (["50"], ["60"])
    told = [recording.state(n)["result"]["tables"][0]["rows"][1] for n in (steps[2].number, steps[3].number)]
    assert told[0] == {"values": ["Vegetable", "50"]}
    assert told[1] == {"values": ["Vegetable", "60"], "before": 0, "old": ["Vegetable", "50"], "now": True}
    question = steps[2].question
    assert question is not None and question.check("-U vegetable 50, +U vegetable 60").right
    totals = [recording.totals(s.number) for s in steps]
    assert [(t.working.rows, t.durable.rows, t.working.rows_before) for t in totals] == [
        (14, 9, 14),
        (15, 9, 14),
        (16, 9, 14),
        (16, 9, 14),
    ]


def test_eves_potato_under_shared_state() -> None:
    """Her batch is [9, 10) in the arrangement; the join keeps nothing; readers move on as they act; the end seals."""
    recording = ss.replay("shared", [view()])([*MESSAGES[:8], ("hold", "slow", 8), MESSAGES[8]])
    eve = recording.messages[9]
    steps = recording.steps[eve.first - 1 : eve.last]
    joined = "π(info ⋈ visit)[category]"
    assert [s.operator for s in steps] == [
        "visit[product]", "result.join1", joined, "result.reduce1", "result", ""]  # fmt: skip
    first, second, last = (recording.state(steps[n].number)["visit[product]"]["tables"][0] for n in (0, 1, 5))
    newest = first["batches"][-1]
    assert (newest["lower"], newest["upper"], newest["fresh"]) == (9, 10, True)
    assert newest["rows"] == [{"values": ["Potato", "Eve", "60"], "before": 0, "now": True, "time": "9"}]
    assert {p["reader"]: (p["before"], p["time"], p.get("outside", False)) for p in second["readers"]} == {
        "result.join1": (8, 9, False),
        "slow": (8, 8, True),
    }
    assert (last["since"][1], last["upper"][1]) == (8, 10), "the slow reader keeps since"
    assert recording.state(steps[1].number)["result.join1"]["tables"] == []
    looked = [
        row["values"]
        for batch in recording.state(steps[1].number)["info[product]"]["tables"][0]["batches"]
        for row in batch["rows"]
        if row.get("looked")
    ]
    assert looked == [["Potato", "Vegetable"]]


def test_eves_potato_under_partial_state() -> None:
    """Before anybody asks, her visit is dropped at the hole; after a read it moves the answer."""
    dropped = ss.replay("partial", [view()])(MESSAGES)
    steps = dropped.steps[dropped.messages[8].first - 1 : dropped.messages[8].last]
    assert [s.operator for s in steps] == ["visit", "result.join1", "result.group1"]
    assert list(steps[2].dropped) == [RowChange(("Vegetable", 60), 1)] and steps[2].sent == ()
    assert steps[2].question is not None and steps[2].question.check("yes").right
    holes = dropped.state(dropped.last)["result.group1"]["tables"][0]["holes"]
    assert [(hole["key"], hole["filled"]) for hole in holes] == [(["Fruit"], False), (["Vegetable"], False)]
    asked = ss.replay("partial", [view()])([*MESSAGES[:8], ("read", "result", "Vegetable"), MESSAGES[8]])
    read, eve = asked.messages[8:]
    way = [(s.kind, s.operator) for s in asked.steps[read.first - 1 : read.last]]
    assert way == [
        ("read", "result"),
        ("upquery", "result.group1"),
        ("upquery", "result.join1"),
        ("upquery", "info"),
        ("response", "result.join1"),
        ("upquery", "visit"),
        ("response", "result.join1"),
        ("response", "result.group1"),
        ("response", "result"),
    ]
    assert asked.steps[read.last - 1].answer == (("Vegetable", 50),)
    assert asked.state(read.first)["result"]["waits"] == ["1 read waiting: Vegetable"]
    assert asked.state(read.first + 1)["result.group1"]["waits"] == ["in flight: ? Vegetable"]
    assert asked.state(read.last)["result"]["waits"] == []
    assert [c.kind for c in asked.steps[eve.last - 1].emitted] == ["-U", "+U"]


def test_a_merge_marks_only_what_the_message_changed() -> None:
    """Rows that a merge copies are not new; copies of a row at different times stay separate."""
    twice = ("visit", ("Apple", "Bob", 20))
    recording = ss.replay("shared", [view()])([*MESSAGES[:7], ("hold", "slow", 7), twice, twice])
    table = recording.state(recording.last)["visit[product]"]["tables"][0]
    assert [s.kind for s in recording.steps[-1:]] == ["seal"]
    rows = [row for batch in table["batches"] for row in batch["rows"] if row["values"] == ["Apple", "Bob", "20"]]
    assert [(row["time"], row.get("before", 1)) for row in rows] == [("≤7", 1), ("8", 1), ("9", 0)]


def test_a_race_goes_wrong_with_its_fix_off() -> None:
    """Without the fix of rule 20 a story whose author was a hole reads as empty; with it the row is there."""
    catalog = ss.Catalog(story="id INT, author STRING", vote="author STRING, n INT")
    catalog.view("CREATE VIEW karma AS SELECT author, COUNT(*) AS karma FROM vote GROUP BY author")
    sql = "CREATE VIEW told AS SELECT id, s.author, karma FROM story s JOIN karma k ON s.author = k.author"
    told = catalog.view(sql, key=["id"])
    history = ["vote Elena, 1", "vote Talia, 1", "story 7, Elena", "read told 7"]
    history += ["-1 story 7, Elena; +1 story 7, Talia", "read told 7"]
    right, wrong = (ss.replay("partial", [told], without=w)(history) for w in ((), ("rule20",)))
    assert right.steps[-1].answer == ((7, "Talia", 1),) and wrong.steps[-1].answer == ()
    assert any("the match is a hole" in s.caption for s in right.steps)


def test_the_result_is_what_duckdb_recomputes() -> None:
    """After every message of a history with updates and deletes, the view's table is recomputation from the rows."""
    catalog = ss.Catalog(info="product STRING, category STRING", visit="product STRING, user STRING, length INT")
    result = catalog.view(view().sql)
    history = [
        *MESSAGES,
        ("visit", ("Potato", "Eve", 60), -1),
        {"info": [(("Apple", "Fruit"), -1), (("Apple", "Pie"), 1)]},
    ]
    for kind in ("full", "shared"):
        recording = ss.replay(kind, [result])(history)
        with_oracle = Oracle([result], catalog.relations)
        for told in recording.messages:
            assert isinstance(told.message, Epoch)
            for relation, row, diff in told.message.changes:
                names = [c.name for c in catalog.relations[relation]]
                with_oracle.apply(relation, pd.DataFrame([(*row, diff)], columns=[*names, "diff"], dtype=object))
            rows = [
                row["values"]
                for row in rows_of(recording.state(told.last)["result"]["tables"][0])
                if row.get("count", 1)
            ]
            wanted = with_oracle.recompute(result)
            found = pd.DataFrame(rows, columns=wanted.columns).astype(wanted.dtypes.to_dict())
            assert difference(found, wanted) is None
        with_oracle.close()


def test_equal_histories_give_equal_recordings() -> None:
    """Nothing in a recording depends on the run."""
    history = [*MESSAGES[:8], ("read", "result", "Vegetable"), MESSAGES[8], ("evict", "result", None)]
    one, other = (ss.replay("partial", [view()], seed=1)(history) for _ in range(2))
    assert [s.caption for s in one.steps] == [s.caption for s in other.steps]
    assert [one.state(n) for n in range(one.last + 1)] == [other.state(n) for n in range(other.last + 1)]


def test_large_tables_are_counted() -> None:
    """A table of thousands of rows is counted; a message with as many is decoded in part."""
    rows = [((f"p{n:05d}", "u", n), 1) for n in range(20_000)]
    recording = ss.replay("full", [view()])(
        [{"visit": rows}, ("info", ("p19999", "Fruit")), ("visit", ("p19998", "u", 0))]
    )
    table = recording.state(recording.last)["result.join1"]["tables"][1]
    assert (table["total"], table["rows"]) == (20_001, []), "a table of thousands is counted, and not listed"
    table = recording.state(0)["result.join1"]["tables"][1]
    assert table["total"] == 0
    first = recording.steps[0]
    assert len(first.sent[0].rows) == 20_000 and first.sent[0].rows.first(1)[0].row == ("p00000", 0)
    assert first.question is None and "20,000 rows" in first.caption


def test_a_table_lists_eight_rows() -> None:
    """A table lists eight rows: those with a mark, then the first ones; the others are counted."""
    rows = [((f"p{n:03d}", "u", n), 1) for n in range(200)]
    table = ss.replay("full", [view()])([{"visit": rows}, ("visit", ("p150", "u", 7))]).state(3)["visit"]["tables"][0]
    assert [row["values"][0] for row in table["rows"]] == [*(f"p{n:03d}" for n in range(7)), "p150"]
    assert (table["total"], table["listed"], table["rows"][-1]["before"]) == (201, 8, 0)


def test_what_cannot_be_is_refused_when_a_replay_is_made() -> None:
    """Kinds and options that cannot be are errors at once, as for an engine."""
    with pytest.raises(ss.ViewError, match="kinds of engine"):
        ss.replay("half", [view()])
    with pytest.raises(ss.ViewError, match="option max_rows is not valid; the full engine accepts columns, join"):
        ss.replay("full", [view()], max_rows=5)
    with pytest.raises(ss.ViewError, match="delta"):
        ss.replay("full", [view()], join="delta")


@pytest.mark.parametrize("kind", ["full", "shared", "partial"])
def test_what_an_engine_refuses_is_told_at_its_place(kind: str) -> None:
    """A message that cannot be taken changes nothing, says why, and the next one goes on."""
    wrong: list[Any] = [
        "visit Potato, Eve, long", ("visit", ("Potato", "Eve", 2**40)), ("visit", ("Potato", "Eve", 61), -1),
        ("nowhere", (1,)), ("install", "result"), ("drop", "nothing"), ("read", "result", (1, 2)), 5, "",
        ("hold", "slow", 99), ("deliver", "a", "b"), ("visit", ("Potato", "Eve", 1), 0),
    ]  # fmt: skip
    recording = ss.replay(kind, [view()])([*MESSAGES, *wrong, ("visit", ("Carrot", "Eve", 70))])
    told = recording.messages[len(MESSAGES) : -1]
    assert all(t.refused and t.first == t.last and t.epoch == 9 for t in told), [t for t in told if not t.refused]
    assert all("\n" not in t.refused and "Traceback" not in t.refused for t in told)
    assert recording.messages[-1].epoch == 10
