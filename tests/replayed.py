"""Compares a recording with an engine that is not observed; shared by the tests of recordings."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from support import pairs, tuples

import sharedstate_lite as ss
from sharedstate_lite.replay import states
from sharedstate_lite.replay import texts as texts_module
from sharedstate_lite.replay.messages import Drop, Epoch, Evict, Hold, Install, Read
from sharedstate_lite.replay.recording import RecordedStep, Recording
from sharedstate_lite.replay.texts import shown


def bag(rows: Any) -> Counter[Any]:
    """Rows of a state, whose values are texts, with how often they are there."""
    out: Counter[Any] = Counter()
    for row in rows:
        out[tuple(row["values"])] += row.get("count", 1)
    return +out


def rows_of(table: Any) -> list[Any]:
    """The rows that a table lists, of all batches if it is an arrangement."""
    return [row for part in table.get("batches", [table]) for row in part.get("rows", [])]


def texts(rows: Counter[Any]) -> Counter[Any]:
    """Rows of an engine with their values as texts."""
    out: Counter[Any] = Counter()
    for row, n in rows.items():
        out[tuple(map(shown, row))] += n
    return out


def stored(engine: ss.Engine, name: str) -> Counter[Any]:
    """``engine.state(name)`` as a bag of texts; counts and sums beside the first diff left out."""
    frame = engine.state(name)
    at = list(frame.columns).index("diff")
    return texts(Counter({row[:at]: row[at] for row in tuples(frame)}))


def check_tables(recording: Recording, step: int, engine: ss.Engine) -> None:
    """Every table after a step has the rows and sizes that the engine stores."""
    held = engine.state()
    sizes = {r["operator"]: (r["rows"], r["bytes"]) for r in held.to_dict("records")}
    told: list[str] = []
    for name, state in recording.state(step).items():
        operator = next(o for o in recording.operators if o.name == name)
        for table in state["tables"]:
            told += table["parts"]
            if table["form"] == "groups":
                check_groups(recording, table, operator.name, engine, list(sizes))
                continue
            part = table["parts"][0]
            read = texts(Counter(tuples(engine.read(name)))) if operator.kind == "view" else stored(engine, part)
            assert bag(rows_of(table)) == read, part
            if table["form"] == "arrangement":
                spans = [(b["lower"], b["upper"], b["total"]) for b in table["batches"]]
                found = next(h.arrangement for h in engine.state_parts() if h.operator == part)
                assert spans == [(b.lower, b.upper, b.rows) for b in found.batches]
                assert (table["since"][1], table["upper"][1]) == (found.since, found.upper)
            else:
                assert table["total"] == table["listed"] == sum(row.get("count", 1) > 0 for row in table["rows"])
        parts = [part for table in state["tables"] for part in table["parts"]]
        rows, size = (sum(sizes[p][n] for p in parts) for n in (0, 1))
        assert (state["rows"], state["bytes"]) == (rows, size), name
    assert len(told) == len(set(told)) and set(told) <= set(sizes)
    rest = held[~held["operator"].isin(told) & (held["kind"] != "index")]  # an index is not drawn beside its table
    assert (rest["bill"] == "durable").all() and not set(rest["relation"]) & {
        o.title for o in recording.graph_at(step)[0]
    }, rest
    total = recording.totals(step)
    bill = engine.bill()
    for column, amount in (
        ("durable inputs", total.durable),
        ("working state", total.working),
        ("cached answers", total.cached),
    ):
        assert (amount.rows, amount.bytes) == tuple(bill.loc[column, ["rows", "bytes"]]), column


def check_groups(recording: Recording, table: Any, name: str, engine: ss.Engine, names: list[str]) -> None:
    """Groups are the output of the aggregation, and their bags its values by group."""
    output = f"{name}.output" if f"{name}.output" in names else name
    if output not in names:
        output = next(e.target for e in recording.edges if e.source == name and e.target in names)
    found = stored(engine, output)
    results = Counter({(*g["key"], *g["result"]["values"]): 1 for g in table["groups"] if g["result"].get("count", 1)})
    # A view may have its columns in another order than the reduce that it is read from.
    assert Counter(frozenset(Counter(r).items()) for r in found) == Counter(
        frozenset(Counter(r).items()) for r in results
    )
    assert len(found) == len(results) == table["total"]
    for at, column in enumerate(table["measures"]):
        values: Counter[Any] = Counter()
        for group in table["groups"]:
            for item in group["bags"][at]["items"]:
                values[(*group["key"], *item["values"])] += item.get("count", 1)
        assert +values == stored(engine, f"{name}.{column}")


def check_steps(recording: Recording) -> None:
    """Messages leave in a step of their sender and arrive in one of their receiver, which alone changes."""
    last = {name: contents(state) for name, state in recording.state(0).items()}
    under: dict[int, int] = {}
    for message in recording.messages:
        assert message.first <= message.last
        for number in range(message.first, message.last + 1):
            step = recording.step(number)
            assert step is not None and step.number == number and step.message == message.number
            assert step.caption.endswith((".", "first")) or step.kind == "refused"
            for move in step.taken:
                assert move.taken == number and move.target == step.operator and move.sent < number
            for move in step.sent:
                assert (
                    move.sent == number and move.source == step.operator and (move.taken is None or move.taken > number)
                )
            under = {n: t for n, t in under.items() if n not in {m.number for m in step.taken}}
            under |= {m.number: number for m in step.sent}
            assert [m.number for m in recording.waiting(number)] == list(under)
            here = {name: contents(state) for name, state in recording.state(number).items()}
            changed = {name for name in here if here[name] != last[name]}
            last = here
            assert changed <= {step.operator} or step.kind in ("install", "drop"), (step, changed)
            if step.question is not None:
                assert step.question.check(step.question.answer).right is True, step.question


def contents(state: Any) -> Any:
    """What an operator's tables contain, without marks."""
    return [
        (
            bag(rows_of(table)),
            [(g["key"], g["result"]["values"], [bag(b["items"]) for b in g["bags"]]) for g in table.get("groups", [])
             if g["result"].get("count", 1)],
            [key["key"] for key in table.get("holes", []) if key["filled"]],
        )
        for table in state["tables"]
    ]  # fmt: skip


def check_edges(recording: Recording, steps: list[RecordedStep], engine: ss.Engine, before: Counter[Any]) -> None:
    """The rows moved along each edge are those of the trace."""
    moved: Counter[Any] = Counter()
    for step in steps:
        for move in step.sent:
            moved[move.trace_edge] += move.trace_rows
    traced = engine.trace.rows_by_edge() - before
    assert all(traced[edge] == weight for edge, weight in moved.items()), (moved, traced)
    shown = {o.name for o in recording.operators}
    edges = {(e.source, e.target) for e in recording.edges if e.kind != "read"}
    missing = {e for e in traced if e not in moved and traced[e] and set(e) <= shown and e in edges}
    assert not missing, missing


def check(recording: Recording, engine: ss.Engine, catalog: ss.Catalog) -> None:
    """Play the same messages on an engine that is not observed, and compare after each. All rows are listed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts_module, "LISTED", 10**6)
        patch.setattr(states, "BAG", 10**6)
        _check(recording, engine, catalog)


def _check(recording: Recording, engine: ss.Engine, catalog: ss.Catalog) -> None:
    engine.trace.clear()
    for message in recording.messages:
        steps = list(recording.steps[message.first - 1 : message.last])
        before = engine.trace.rows_by_edge()
        given = message.message
        try:
            if isinstance(given, Epoch):
                inputs: dict[str, list[Any]] = {}
                for relation, row, diff in given.changes:
                    inputs.setdefault(relation, []).append((row, diff))
                out = engine.step(inputs)
                for name, changes in out.items():
                    said = Counter((c.kind, c.row, c.diff) for s in steps if s.operator == name for c in s.emitted)
                    net = Counter(dict.fromkeys(pairs(changes), 1))
                    if engine.kind == "partial":
                        total: Counter[Any] = Counter()
                        for (_, row, diff), n in said.items():
                            total[row] += diff * n
                        assert {r: d for r, d in total.items() if d} == dict(pairs(changes)), name
                    else:
                        wanted = zip(changes.kinds(), pairs(changes), strict=True)
                        assert said == Counter((kind, row, diff) for kind, (row, diff) in wanted), (name, net)
            elif isinstance(given, Read):
                rows = tuples(engine.read(given.view, given.key))
                assert [s.answer for s in steps if s.answer is not None] == [tuple(rows)]
            elif isinstance(given, Evict):
                engine.evict(given.view, given.key)
            elif isinstance(given, Install):
                engine.install(catalog.views[given.view])
            elif isinstance(given, Drop):
                engine.drop(given.view)
            else:
                assert isinstance(given, Hold)
                engine.handle(given.time)
        except ss.Error as error:
            assert message.refused == str(error)
        else:
            assert not message.refused
        assert message.epoch == engine.epoch
        if not message.refused:
            check_edges(recording, steps, engine, before)
        check_tables(recording, message.last, engine)
    check_steps(recording)
