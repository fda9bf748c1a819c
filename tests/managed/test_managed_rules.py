"""Rules 26′, 29, 30, 32 and 35: managed state against plain Python, and against other ways to process the same rows."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from plain_state import ACTIONS, STATES, Everything, Model, epochs, second

from sharedstate_lite import managed as m
from sharedstate_lite.errors import StateError

SOURCE = m.source("actions", "k STRING, t TIMESTAMP, action INT", key="k", time="t", delay="3 seconds")
Epochs = list[list[tuple[Any, float, tuple[Any, ...]]]]


def started(drawn: Epochs, **options: Any) -> tuple[m.ManagedRun, list[list[tuple[Any, ...]]]]:
    """A run whose rows take the drawn actions, and these rows."""
    operator, numbered = Everything(), iter(range(sum(map(len, drawn))))
    operator.actions = [action for rows in drawn for _, _, action in rows]
    return m.run(operator, SOURCE, **options), [[(k, second(t), next(numbered)) for k, t, _ in rows] for rows in drawn]


class Plain:
    """The same operator in plain Python: rows, then the watermark, then timers by (time, key), then expiries."""

    def __init__(self) -> None:
        self.model, self.watermark = Model(), datetime.min

    def step(self, rows: list[tuple[Any, float, tuple[Any, ...]]]) -> list[tuple[Any, str]] | None:
        """What is emitted, or None if a row raises; then nothing has changed."""
        model, out = self.model.copy(), []
        for key, t, (state, method, arguments) in rows:
            model.key, model.time = key, second(t)
            if state == "raise":
                return None
            out.append((key, repr(ACTIONS[state, method].model(model, *arguments))))
        latest = max((second(t) for _, t, _ in rows), default=datetime.min)
        before, after = self.watermark, self.watermark
        if latest > datetime.min:
            after = max(self.watermark, latest - timedelta(seconds=3))
        alarms = model.cells.setdefault("alarm", {})
        for key, at in sorted(alarms.items(), key=lambda each: (each[1], each[0] is None, each[0])):
            if at <= after:
                del alarms[key]
                total = model.cells.setdefault("total", {})
                total[key] = total.get(key, 0) + 1000
                model.key = key
                gone = model.hides("brief", (), max(before, at))
                brief = 7 if gone else model.cells.get("brief", {}).get(key, [7])[0]
                out.append((key, repr(("alarm", at, total[key], brief))))
        model.expire(after)
        self.model, self.watermark = model, after
        return out


@pytest.mark.parametrize("store", ["dict", "columns", "hybrid", "rocksdb"])
@given(drawn=epochs(), workers=st.sampled_from([1, 3]))
def test_rule_29_every_state_is_its_plain_python_model(store: str, drawn: Epochs, workers: int) -> None:
    """Any actions on all kinds of state give what lists and dicts give: what callbacks see, and what is read after."""
    run, numbered = started(drawn, store=store, workers=workers, bins=8)
    plain = Plain()
    with run:
        for rows, given_rows in zip(drawn, numbered, strict=True):
            late = [t for _, t, _ in rows if second(t) < plain.watermark]
            assert not late
            wanted = plain.step(rows)
            if wanted is None:
                with pytest.raises(StateError, match="RuntimeError: on purpose"):
                    run.step(given_rows)
            else:
                emitted = run.step(given_rows)
                assert list(zip(emitted["k"].replace({pd.NA: None}), emitted["what"], strict=True)) == wanted
            for state in STATES:
                for key in ("A", "B", None):
                    assert run.read(state, key=(key,)) == plain.model.view(state, key), (state, key)


def test_rule_29_compares_what_it_says() -> None:
    """An action whose model does something else is found: the comparison can fail."""
    run, rows = started([[("A", 0, ("tail", "append", ({"a": 1},)))]])
    run.step(rows[0])
    assert run.read("tail", key="A") == [{"a": 1}] != Model().view("tail", "A")


@settings(max_examples=10)
@pytest.mark.parametrize("store", ["dict", "columns"])
@given(drawn=epochs())
def test_rule_30_once_all_has_expired_there_is_no_state(store: str, drawn: Epochs) -> None:
    """Once the watermark has passed all timers and expiries, what can expire holds no row in any store."""
    drawn = [
        [(k, t, a) for k, t, a in rows if a[0] in ("brief", "queue", "fading", "recent", "sides")] for rows in drawn
    ]
    run, numbered = started(drawn, store=store, workers=2, bins=8)
    for rows in numbered:
        run.step(rows)
    written = any(action[1] in ("set", "append", "put", "add") for rows in drawn for _, _, action in rows)
    before = int(run.state()["rows"].sum())
    run.advance(second(1_000))
    assert run.state()["rows"].sum() == 0
    assert written or not before


@settings(max_examples=10)
@pytest.mark.parametrize("store", ["dict", "columns"])
@given(
    drawn=epochs(),
    sizes=st.lists(st.tuples(st.integers(1, 5), st.sampled_from(["all", "fluid", "batched"])), max_size=6),
)
def test_rule_26_timers_and_expiries_move_with_their_bin(
    store: str, drawn: Epochs, sizes: list[tuple[int, str]]
) -> None:
    """A run that is rescaled between epochs emits and stores what a run with one worker does, to the last expiry."""
    drawn = [[row for row in rows if row[2][0] != "raise"] for rows in drawn]
    (one, numbered), (moved, _) = started(drawn, store=store, bins=8), started(drawn, store=store, bins=8, workers=2)
    for at, rows in enumerate(numbered):
        if at < len(sizes):
            moved.rescale(sizes[at][0], migration=sizes[at][1])
            assert moved.workers == sizes[at][0] == len(set(moved.owners))
        pd.testing.assert_frame_equal(one.step(rows), moved.step(rows))
    pd.testing.assert_frame_equal(one.advance(second(1_000)), moved.advance(second(1_000)))
    for state in STATES:
        pd.testing.assert_frame_equal(one.read(state), moved.read(state))


class ByRow(m.Operator):
    """A record at a time."""

    out = "k STRING, total BIGINT, was INT"
    total = m.Reducing("BIGINT", "sum")
    low = m.Reducing("DOUBLE", "min")
    thirds = m.Reducing("DOUBLE", "sum")
    pair = m.Reducing("STRUCT<n: BIGINT, top: INT>", {"n": "sum", "top": "max"}, ttl="4 seconds")
    last = m.Value("INT", ttl="4 seconds")
    named = m.Value("STRUCT<x: INT, s: STRING>")
    seen = m.Map("STRING", "INT", ttl="6 seconds")
    mean = m.Aggregating("DOUBLE", m.Mean)
    quiet = m.Timer()
    tail = m.List("STRUCT<x: INT>", ttl="5 seconds")
    recent = m.Ordered("s STRING", ttl="4 seconds")

    def row(self, key: Any, row: Any, out: Any) -> None:
        """Each state once."""
        self.tail.append((row["x"],))
        self.recent.add(row["s"])
        self.total.add(row["x"])
        self.low.add(None if row["x"] is None else row["x"] / 2)
        self.thirds.add(None if row["x"] is None else row["x"] / 3)
        self.pair.add((1, row["x"]))
        self.named.set((row["x"], row["s"]))
        self.seen.put(row["s"] or "", row["x"])
        self.mean.add(row["x"])
        self.last.set(row["x"])
        self.quiet.set(row["t"] + timedelta(seconds=5))

    def on_quiet(self, key: Any, at: datetime, out: Any) -> None:
        """Emit what is there, and forget the average."""
        out(key, self.total.get(), self.last.get())
        self.mean.clear()


class ByRows(ByRow):
    """Columns at a time."""

    row = None  # type: ignore[assignment]

    def rows(self, batch: Any, out: Any) -> None:
        """The same, with columns."""
        keys, x = batch.keys, batch["x"]
        self.total.add(keys, x)
        self.low.add(keys, x / 2)
        self.thirds.add(keys, x / 3)
        self.pair.add(keys, {"n": 1, "top": x})
        self.named.set(keys, pd.DataFrame({"x": x, "s": batch["s"]}))
        self.seen.put(keys, batch["s"].fillna(""), x)
        self.mean.add(keys, x)
        self.last.set(keys, x)
        self.quiet.set(keys, batch["t"] + pd.Timedelta(seconds=5))
        for at in self.each(keys):
            self.tail.append({"x": x[at]})
            self.recent.add(batch["s"][at])


VISITS = m.source("visit", "k STRING, t TIMESTAMP, x INT, s STRING", key="k", time="t", delay="3 seconds")
KEYS = st.none() | st.sampled_from(["a", "b", "c"])
VISIT = st.tuples(
    KEYS, st.sampled_from([0, 0.5, 1, 4]), st.none() | st.integers(-9, 9), st.sampled_from([None, "p", "q"])
)


@pytest.mark.parametrize("store", ["dict", "columns"])
@example([[("a", 4, 5, "p"), ("a", 0, None, "p")], [], [("b", 4, 1, "p")] * 4, [("b", 4, 1, "p")] * 2], 2)
@given(drawn=st.lists(st.lists(VISIT, max_size=8), max_size=6), workers=st.sampled_from([1, 2]))
def test_rule_32_row_and_rows_do_the_same(store: str, drawn: list[list[tuple[Any, ...]]], workers: int) -> None:
    """An operator written for records and one written for columns emit and store the same."""
    slow, fast = m.run(ByRow(), VISITS), m.run(ByRows(), VISITS, store=store, workers=workers, bins=4)
    clock = 0.0
    for epoch in drawn:
        rows = []
        for key, ahead, x, text in epoch:
            rows.append((key, second(clock + ahead), x, text))
            clock += ahead / 4
        pd.testing.assert_frame_equal(slow.step(rows), fast.step(rows))
        for state in ("total", "low", "thirds", "pair", "last", "named", "seen", "mean", "quiet", "tail", "recent"):
            a, b = slow.read(state), fast.read(state)
            pd.testing.assert_frame_equal(a, b)


class Sessions(m.Operator):
    """Sensitive to order: a session ends after two quiet seconds; each row says how long it has lasted."""

    out = "k STRING, t TIMESTAMP, n INT, x INT"
    order = "event"
    rows_seen = m.Ordered("x INT", ttl="3 seconds")
    n = m.Value("INT", default=0)
    last = m.Value("INT", ttl="1 second", default=-1)
    quiet = m.Timer()

    def row(self, key: Any, row: Any, out: Any) -> None:
        """Count, and say what came before."""
        self.n.set(self.n.get() + 1)
        out(key, row["t"], self.n.get() + 100 * len(self.rows_seen.range()), self.last.get())
        self.last.set(row["x"])
        self.rows_seen.add(row["x"])
        self.quiet.set(row["t"] + timedelta(seconds=2))

    def on_quiet(self, key: Any, at: datetime, out: Any) -> None:
        """The session is over."""
        out(key, at, -self.n.get(), self.last.get())
        self.n.clear()


EVENTS = m.source("events", "k STRING, t TIMESTAMP, x INT, s STRING", key="k", time="t", delay="3 seconds")


def sessions(rows: list[tuple[Any, ...]], cuts: list[int], **options: Any) -> tuple[pd.DataFrame, m.ManagedRun]:
    """All that is emitted for the rows, cut into epochs at these positions, and the run at the end."""
    run = m.run(Sessions(), EVENTS, **options)
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    parts = [run.step(rows[a:b]) for a, b in zip(edges, edges[1:], strict=False)]
    parts.append(run.advance(second(30)))
    return pd.concat(parts, ignore_index=True), run


@pytest.mark.parametrize("store", ["dict", "columns"])
@given(
    times=st.lists(st.integers(0, 80), min_size=1, max_size=14, unique=True),
    noise=st.lists(st.floats(0, 2.9), min_size=14, max_size=14),
    cuts=st.tuples(st.lists(st.integers(0, 14), max_size=4), st.lists(st.integers(0, 14), max_size=4)),
    workers=st.sampled_from([1, 3]),
)
def test_rule_35_neither_epochs_nor_order_within_the_delay_matter(
    store: str, times: list[int], noise: list[float], cuts: tuple[list[int], list[int]], workers: int
) -> None:
    """With order="event", rows in order and in disorder, cut into any epochs, emit the same rows in the same order."""
    rows = [("abc"[t % 3], second(t / 4), t, "x") for t in sorted(times)]
    arrivals = [row[1] + timedelta(seconds=late) for row, late in zip(rows, noise, strict=False)]
    shaken = [rows[at] for at in sorted(range(len(rows)), key=arrivals.__getitem__)]
    straight, one = sessions(rows, cuts[0])
    other, two = sessions(shaken, cuts[1], store=store, workers=workers, bins=8)
    pd.testing.assert_frame_equal(straight, other)
    for state in ("n", "last", "rows_seen", "quiet"):
        pd.testing.assert_frame_equal(one.read(state), two.read(state))
    assert sum(n > 0 for n in straight["n"]) == len(rows)


def test_rule_35_in_order_of_arrival_it_does_matter() -> None:
    """The same operator with order="arrival" emits something else for rows in disorder."""
    rows = [("a", second(t), t, "x") for t in (1, 2, 3)]
    straight, _ = sessions(rows, [], order="arrival")
    other, _ = sessions([rows[1], rows[0], rows[2]], [], order="arrival")
    assert straight.values.tolist() != other.values.tolist()
