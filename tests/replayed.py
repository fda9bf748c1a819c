"""Compares a recording with an engine that is not observed; shared by the tests of recordings."""

from __future__ import annotations

from collections import Counter
from typing import Any

from support import pairs, tuples

import sharedstate_lite as ss
from sharedstate_lite.replay.messages import Drop, Epoch, Evict, Hold, Install, Read
from sharedstate_lite.replay.recording import RecordedStep, Recording, Table


def bag(rows: Any) -> Counter[Any]:
    """Rows with how often they are there."""
    out: Counter[Any] = Counter()
    for row in rows:
        if row.count > 0:
            out[row.values] += row.count
    return out


def stored(engine: ss.Engine, name: str) -> Counter[Any]:
    """``engine.state(name)`` as a bag; counts and sums beside the first diff left out."""
    frame = engine.state(name)
    at = list(frame.columns).index("diff")
    return Counter({row[:at]: row[at] for row in tuples(frame)})


def check_tables(recording: Recording, step: int, engine: ss.Engine) -> None:
    """Every table after a step has the rows and sizes that the engine stores."""
    held = engine.state()
    sizes = {r["operator"]: (r["rows"], r["bytes"]) for r in held.to_dict("records")}
    told: list[str] = []
    for name, state in recording.state(step).items():
        operator = next(o for o in recording.operators if o.name == name)
        for table in state.tables:
            told += table.parts
            if table.form == "groups":
                check_groups(recording, table, operator.name, engine, list(sizes))
            else:
                read = Counter(tuples(engine.read(name))) if operator.kind == "view" else stored(engine, table.parts[0])
                assert bag(table.rows) == read, table.name
                assert table.total == len(bag(table.rows))
                if table.arrangement is not None:
                    spans = [(s.lower, s.upper, s.total) for s in table.arrangement.batches]
                    found = next(h.arrangement for h in engine.state_parts() if h.operator == table.parts[0])
                    assert spans == [(b.lower, b.upper, b.rows) for b in found.batches]
                    assert (table.arrangement.since, table.arrangement.upper) == (found.since, found.upper)
        parts = [part for table in state.tables for part in table.parts]
        rows, size = (sum(sizes[p][n] for p in parts) for n in (0, 1))
        assert (state.rows, state.bytes) == (rows, size), name
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


def check_groups(recording: Recording, table: Table, name: str, engine: ss.Engine, names: list[str]) -> None:
    """Groups are the output of the aggregation, and their bags its values by group."""
    output = f"{name}.output" if f"{name}.output" in names else name
    if output not in names:
        output = next(e.target for e in recording.edges if e.source == name and e.target in names)
    found = stored(engine, output)
    results = Counter({(*g.key, *g.result.values): g.result.count for g in table.groups if g.result and g.result.count})
    # A view may have its columns in another order than the reduce that it is read from.
    assert Counter(frozenset(Counter(r).items()) for r in found) == Counter(
        frozenset(Counter(r).items()) for r in results
    )
    assert len(found) == len(results) == table.total
    for at, column in enumerate(table.measures):
        values: Counter[Any] = Counter()
        for group in table.groups:
            for item in group.bags[at].items:
                if item.count:
                    values[(*group.key, *item.values)] += item.count
        assert values == stored(engine, f"{name}.{column}")


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
        (t.name, bag(t.rows), {(g.key, g.result and g.result.values): [bag(b.items) for b in g.bags] for g in t.groups
         if g.result and g.result.count}, t.filled)
        for t in state.tables
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
    """Play the same messages on an engine that is not observed, and compare after each."""
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
