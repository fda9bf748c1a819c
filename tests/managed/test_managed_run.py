"""The contract of a run: what is emitted in which order, time, reads, snapshots, checkpoints and rescaling."""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from sharedstate_lite import managed as m
from sharedstate_lite.errors import CheckpointError, StateError, TimeError
from sharedstate_lite.managed.stores.dicts import DictStore
from sharedstate_lite.managed.tasks import spread
from sharedstate_lite.storage import Delta

START = datetime(2024, 1, 1)
VISIT = m.source("visit", "k STRING, t TIMESTAMP, x INT", key="k", time="t", delay="10 seconds")


def second(n: float) -> datetime:
    """The moment n seconds after the start."""
    return START + timedelta(seconds=n)


def seconds(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    """The rows of a frame, with times as seconds after the start."""
    rows = frame.astype(object).where(frame.notna(), None).itertuples(index=False)
    return [tuple((v - START).total_seconds() if isinstance(v, datetime) else v for v in row) for row in rows]


class Echo(m.Operator):
    """Emits its rows, and the times of its timers."""

    out = "k STRING, x INT, t TIMESTAMP"
    first = m.Timer()
    second = m.Timer()

    def row(self, key: Any, row: Any, out: Any) -> None:
        """Two timers, one of them in the past."""
        out(key, row["x"], row["t"])
        self.first.set(row["t"] + timedelta(seconds=row["x"]))
        self.second.set(row["t"] + timedelta(seconds=5))

    def on_first(self, key: Any, at: datetime, out: Any) -> None:
        """Say so."""
        out(key, -1, at)

    def on_second(self, key: Any, at: datetime, out: Any) -> None:
        """Say so."""
        out(key, -2, at)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_rows_come_in_the_order_of_the_input_then_of_timers(workers: int) -> None:
    """What rows emit is in the order of the rows, what timers emit in that of (time, key, name), for any workers."""
    run = m.run(Echo(), VISIT, workers=workers)
    rows = [(k, second(at), x) for at, (k, x) in enumerate([("d", 5), ("b", 5), ("a", 4), ("c", -9), (None, 4)])]
    emitted = seconds(run.step(rows))
    assert emitted == [("d", 5, 0), ("b", 5, 1), ("a", 4, 2), ("c", -9, 3), (None, 4, 4), ("c", -1, -6)]
    assert seconds(run.advance(second(7))) == [
        ("d", -1, 5),
        ("d", -2, 5),
        ("a", -1, 6),
        ("b", -1, 6),
        ("b", -2, 6),
        ("a", -2, 7),
    ]
    assert seconds(run.advance(second(9))) == [("c", -2, 8), (None, -1, 8), (None, -2, 9)]
    assert (run.epoch, run.state()["rows"].sum()) == (3, 0)


def test_a_timer_that_is_due_is_called_in_the_same_epoch() -> None:
    """A timer at or before the new watermark does not wait for another epoch."""
    run = m.run(Echo(), VISIT)
    emitted = seconds(run.step([("a", second(0), 3), ("b", second(15), 1)]))
    assert emitted == [("a", 3, 0), ("b", 1, 15), ("a", -1, 3), ("a", -2, 5)]


class Chain(m.Operator):
    """A timer sets the next one, until it has been called x times."""

    out = "k STRING, left INT, at TIMESTAMP"
    left = m.Value("INT")
    again = m.Timer()

    def row(self, key: Any, row: Any, out: Any) -> None:
        """Start."""
        self.left.set(row["x"])
        self.again.set(row["t"])

    def on_again(self, key: Any, at: datetime, out: Any) -> None:
        """Emit and go on."""
        out(key, self.left.get(), at)
        if self.left.get():
            self.left.set(self.left.get() - 1)
            self.again.set(at + timedelta(seconds=1))


def test_a_timer_may_set_itself_again() -> None:
    """It is called again in the same epoch, as long as it is due, and later otherwise."""
    run = m.run(Chain(), VISIT)
    assert seconds(run.step([("a", second(0), 4), ("b", second(12), 0)])) == [("a", 4, 0), ("a", 3, 1), ("a", 2, 2)]
    assert seconds(run.advance(second(30))) == [("a", 1, 3), ("a", 0, 4), ("b", 0, 12)]


class Brief(m.Operator):
    """Values that live for ten seconds after they were written."""

    out = "k STRING, n INT"
    n = m.Value("INT", ttl="10 seconds", default=0)
    by = m.Map("INT", "LIST<INT>", ttl="10 seconds")
    check = m.Timer()

    def row(self, key: Any, row: Any, out: Any) -> None:
        """Reading does not refresh; writing does."""
        out(key, self.n.get())
        if row["x"]:
            self.n.set(row["x"])
            self.by.put(row["x"], [row["x"]] * 3)

    def on_check(self, key: Any, at: datetime, out: Any) -> None:
        """Not used by rows."""


@pytest.mark.parametrize("store", ["dict", "columns"])
def test_an_entry_expires_a_time_after_its_last_write(store: str) -> None:
    """The expiry is the event time of the write plus the time to live, and it is judged by the watermark."""
    run = m.run(Brief(), VISIT, store=store)
    run.step([("a", second(0), 1), ("a", second(4), 2)])
    run.advance(second(9))
    assert seconds(run.step([("a", second(9), 0)])) == [("a", 2)]
    run.advance(second(10))
    assert run.read("by", key="a") == {2: [2, 2, 2]} and run.read("n", key="a") == 2
    assert len(run.state("by.items")) == 3
    run.advance(second(14))
    assert run.read("n", key="a") is None and run.read("by", key="a") is None
    assert run.state()["rows"].sum() == 0


class Sum(m.Operator):
    """The second operator of a chain: counts what the first emits, by another key."""

    key = "x"
    out = "x INT, n BIGINT"
    n = m.Reducing("BIGINT", "sum")

    def rows(self, batch: Any, out: Any) -> None:
        """Columns, although the first operator emits records."""
        self.n.add(batch.keys, 1)
        out.add({"x": batch["x"], "n": self.n.get(batch.keys)})


@pytest.mark.parametrize("workers", [1, 3])
def test_operators_in_a_chain(workers: int) -> None:
    """What one emits, its timers included, is the input of the next in the same epoch, keyed anew."""
    run = m.run([Echo(), Sum()], VISIT, workers=workers)
    assert seconds(run.step([("a", second(0), 7), ("b", second(0), 7)])) == [(7, 2), (7, 2)]
    assert seconds(run.advance(second(6))) == [(-2, 2), (-2, 2)]
    assert seconds(run.read("n")) == [(-2, 2), (7, 2)]
    assert run.read("Sum.n", key=7) == 2


class Waits(m.Operator):
    """A second operator in event order."""

    key = "k"
    order = "event"
    out = "k STRING, x INT"

    def row(self, key: Any, row: Any, out: Any) -> None:
        """Emit what came."""
        out(key, row["x"])


def test_an_operator_in_event_order_waits_in_a_chain() -> None:
    """Its rows have the event times of the rows and timers from which they follow."""
    run = m.run([Echo(), Waits()], VISIT, workers=2)
    assert seconds(run.step([("a", second(0), 9), ("b", second(12), 9)])) == [("a", 9)]
    assert len(run.state("@rows")) == 1
    assert seconds(run.advance(second(21))) == [("a", -2), ("a", -1), ("b", 9), ("b", -2)]
    assert seconds(run.advance(second(22))) == [("b", -1)]


@pytest.mark.parametrize("workers", [1, 2])
def test_in_event_order_a_timer_comes_before_the_rows_of_its_time(workers: int) -> None:
    """Rows of time t wait until the watermark has passed t; timers of t are called before them, for any workers."""
    run = m.run(Echo(), VISIT, order="event", workers=workers)
    assert seconds(run.step([("b", second(5), 1), ("a", second(0), 5)])) == []
    assert seconds(run.advance(second(5))) == [("a", 5, 0), ("a", -1, 5), ("a", -2, 5)]
    assert seconds(run.advance(second(6))) == [("b", 1, 5), ("b", -1, 6)]
    again = m.run(Echo(), VISIT, order="event", workers=workers)
    again.step([("b", second(5), 1), ("a", second(0), 5)])
    assert seconds(again.advance(second(6)))[2:4] == [("a", -2, 5), ("b", 1, 5)]


class Clock(m.Operator):
    """Emits what it sees of time."""

    out = "k STRING, watermark TIMESTAMP, now TIMESTAMP, clock STRING"

    def row(self, key: Any, row: Any, out: Any) -> None:
        """The watermark, the row's time and the clock."""
        out(key, self.watermark, self.now, self.clock)


def test_what_an_operator_sees_of_time() -> None:
    """All rows see the watermark at the start of their epoch. The clock is a part of the input."""
    run = m.run(Clock(), VISIT)
    assert seconds(run.step([("a", second(20), 1), ("b", second(90), 1)], clock="noon")) == [
        ("a", None, 20, "noon"),
        ("b", None, 90, "noon"),
    ]
    assert seconds(run.step([("a", second(81), 1)])) == [("a", 80, 81, None)]


# --- reads and snapshots -----------------------------------------------------------


class Many(m.Operator):
    """A state of each kind, with a key of two columns."""

    value = m.Value("DATE")
    tail = m.List("INT")
    by = m.Map("STRING", "STRUCT<n: INT>")
    hours = m.Array("INT", 2, default=0)
    recent = m.Ordered("x INT")
    total = m.Reducing("INT", "sum")
    mean = m.Aggregating("DOUBLE", m.Mean)
    alarm = m.Timer()

    def row(self, key: Any, row: Any, out: Any) -> None:
        """Write all."""
        self.value.set((row["t"] + timedelta(days=row["x"])).date())
        self.tail.append(row["x"])
        self.by.put("x", (row["x"],))
        self.hours.set(1, row["x"])
        self.recent.add(row["x"])
        self.total.add(row["x"])
        self.mean.add(row["x"])
        self.alarm.set(row["t"] + timedelta(days=1))

    def on_alarm(self, key: Any, at: datetime, out: Any) -> None:
        """Never due here."""


PAIRS = m.source("visit", "k STRING, j INT, t TIMESTAMP, x INT", key="k, j", time="t")


@pytest.mark.parametrize("store", ["dict", "columns"])
def test_reads_give_python_values_and_frames(store: str) -> None:
    """A read with a key is a value or None, one without is a frame sorted by key, NULL last."""
    run = m.run(Many(), PAIRS, workers=2, store=store)
    run.step([("b", 1, second(0), 3), (None, 2, second(1), 4), ("b", 1, second(2), 5), ("a", 9, second(3), 6)])
    wanted = {
        "value": second(5 * 86_400).date(),
        "tail": [3, 5],
        "by": {"x": {"n": 5}},
        "hours": [0, 5],
        "recent": [{"time": second(0), "x": 3}, {"time": second(2), "x": 5}],
        "total": 8,
        "mean": 4.0,
        "alarm": second(86_402),
    }
    for state, value in wanted.items():
        assert run.read(state, key=("b", 1)) == value
        assert run.read(state, key=("b", 2)) is None
        frame = run.read(state)
        assert list(frame.columns) == ["k", "j", state]
        assert frame["k"].replace({pd.NA: None}).tolist() == ["a", "b", None]
        assert frame[state][1] == value
    known = len(run.strings)
    assert run.read("total", key=("never seen", 1)) is None and len(run.strings) == known
    state = run.state()
    assert set(state["kind"]) == {"value", "list", "map", "array", "ordered", "reducing", "aggregating", "timer"}
    assert state.groupby("relation")["rows"].sum().to_dict() == dict.fromkeys(wanted, 3) | {"tail": 4, "recent": 4}
    assert state["key"].tolist() == [("k", "j")] * 16 and state["bytes"].sum() > 0
    assert run.state("by")["@key"].tolist() == ["x"] * 3
    assert sorted(run.state("by")["bin"]) == sorted(run.state("total")["bin"])


@pytest.mark.parametrize("store", ["dict", "columns"])
def test_a_snapshot_stays_as_it_was(store: str) -> None:
    """A snapshot has the number of its epoch, is read later as it was, and the oldest ones go."""
    run = m.run(Sum(), m.source("visit", "x INT", key="x"), workers=2, store=store, snapshot_every=2, keep=2)
    seen = {}
    for epoch in range(1, 8):
        run.step([(at,) for at in range(epoch)])
        seen[epoch] = seconds(run.read("n"))
        if epoch == 5:
            run.rescale(3)
    assert run.snapshots == [4, 6]
    for epoch in run.snapshots:
        assert seconds(run.contents("n", at=epoch).frame()) == seen[epoch]
    with pytest.raises(TimeError, match="there is no snapshot 2; the snapshots are 4, 6"):
        run.contents("n", at=2)


class CountingStore(DictStore):
    """Counts the rows written, by relation."""

    written: Counter[str] = Counter()

    def write(self, changes: Mapping[str, Delta], epoch: int) -> None:
        """Count, then write."""
        self.written.update({name: len(delta.diffs) for name, delta in changes.items()})
        super().write(changes, epoch)


class OneEntry(m.Operator):
    """A map of lists, one entry of which changes at a time."""

    by = m.Map("INT", "LIST<INT>")
    blob = m.Value("MAP<INT, LIST<INT>>")

    def row(self, key: Any, row: Any, out: Any) -> None:
        """Append to one entry, both ways."""
        self.by.put(row["x"], [*self.by.get(row["x"], []), 1])
        whole = self.blob.get() or {}
        whole.setdefault(row["x"], []).append(1)
        self.blob.set(whole)


def test_changing_one_entry_writes_one_row() -> None:
    """Of a map of a hundred entries, one row is written. What is set again and is equal writes nothing."""
    run = m.run(OneEntry(), VISIT, store=CountingStore)
    run.step([("a", second(0), x) for x in range(100)])
    CountingStore.written.clear()
    run.step([("a", second(1), 7)])
    assert CountingStore.written == {"by.items": 1, "blob.items.items": 1}


class FailingStore(DictStore):
    """Fails to write the third epoch, in the store of one worker."""

    fails = 0

    def write(self, changes: Mapping[str, Delta], epoch: int) -> None:
        """Write, or raise."""
        if epoch == 3 and self._name == f"Sum-{self.fails}":
            raise OSError("the disk is full")
        super().write(changes, epoch)


@pytest.mark.parametrize("worker", [0, 1])
def test_a_store_that_fails_undoes_the_epoch_or_ends_the_run(worker: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If nothing was written, the epoch is undone and can be repeated. If one store has written, the run is closed."""
    monkeypatch.setattr(FailingStore, "fails", worker)
    run = m.run(Sum(), m.source("visit", "x INT", key="x"), workers=2, store=FailingStore)
    rows = [(n,) for n in range(20)]
    for _ in range(2):
        run.step(rows)
    with pytest.raises(OSError if worker == 0 else StateError, match="the disk is full"):
        run.step(rows)
    if worker == 1:
        with pytest.raises(StateError, match="this run is closed"):
            run.step(rows)
        return
    assert run.epoch == 2 and run.read("n", key=7) == 2
    monkeypatch.setattr(FailingStore, "fails", -1)
    run.step(rows)
    assert run.epoch == 3 and run.read("n", key=7) == 3


class RefusingStore(DictStore):
    """Does not accept bins."""

    def give(self, blob: bytes) -> None:
        """Raise on worker 1."""
        if self._name == "Sum-1":
            raise OSError("the disk is full")
        super().give(blob)


def test_a_bin_stays_if_it_cannot_move() -> None:
    """If the new owner cannot take a bin, the old one has it, and the run goes on."""
    run = m.run(Sum(), m.source("visit", "x INT", key="x"), store=RefusingStore)
    rows = [(n,) for n in range(20)]
    run.step(rows)
    with pytest.raises(OSError, match="the disk is full"):
        run.rescale(2)
    assert run.workers == 1 and set(run.owners) == {0}
    run.step(rows)
    assert seconds(run.read("n")) == [(n, 2) for n in range(20)]


# --- tasks -------------------------------------------------------------------------


class Offsets(m.Operator):
    """Task state of each kind."""

    offset = m.Task("MAP<STRING, BIGINT>", spread="split")
    seen = m.Task("LIST<STRING>", spread="union")
    config = m.Task("STRUCT<limit: INT>", spread="broadcast")

    def row(self, key: Any, row: Any, out: Any) -> None:
        """Remember the key on its worker."""
        self.offset.set({**(self.offset.get() or {}), key: row["x"]})
        self.seen.set([*(self.seen.get() or []), key])
        self.config.set({"limit": 3})
        if row["x"] == 99:
            raise RuntimeError("on purpose")


def test_task_state_is_spread_over_new_workers(tmp_path: Path) -> None:
    """split divides entries, union gives all to each, broadcast copies; rescaling and restoring do the same."""
    run = m.run(Offsets(), VISIT, workers=2)
    keys = [f"p{n}" for n in range(8)]
    run.step([(key, second(0), n) for n, key in enumerate(keys)])
    parts = run.read("offset")["offset"].tolist()
    assert sorted(key for part in parts for key in part) == keys and all(parts)
    with pytest.raises(StateError, match="on purpose"):
        run.step([("p1", second(0), 99)])
    assert run.read("offset")["offset"].tolist() == parts
    run.checkpoint(tmp_path / "c")
    run.rescale(4)
    for each in (run, m.restore(tmp_path / "c", Offsets(), workers=4)):
        offsets = each.read("offset")["offset"].tolist()
        assert [len(part) for part in offsets] == [2] * 4
        assert {k: v for part in offsets for k, v in part.items()} == dict(zip(keys, range(8), strict=True))
        assert [sorted(part) for part in each.read("seen")["seen"]] == [keys] * 4
        assert each.read("config")["config"].tolist() == [{"limit": 3}] * 4
        assert each.read("config").columns.tolist() == ["worker", "config"]


def test_task_state_that_contradicts_itself_is_refused() -> None:
    """Copies of a broadcast must be equal, and two workers may not have one map key. The run keeps its workers."""

    class Copies(m.Operator):
        config = m.Task("INT", spread="broadcast")

        def row(self, key: Any, row: Any, out: Any) -> None:
            self.config.set(row["x"])

    run = m.run(Copies(), VISIT, workers=2)
    run.step([(f"p{n}", second(0), n) for n in range(8)])
    with pytest.raises(StateError, match="Copies.config: the workers' values differ"):
        run.rescale(3)
    assert run.workers == 2
    with pytest.raises(StateError, match="two workers have an entry for one map key"):
        spread(m.Task("MAP<STRING, INT>", "split"), [{"a": 1}, {"a": 2}], 2)


# --- checkpoints ---------------------------------------------------------------------


@pytest.mark.parametrize(("store", "other"), [("dict", "columns"), ("columns", "dict"), ("columns", "columns")])
@pytest.mark.parametrize("workers", [2, 3])
def test_a_checkpoint_is_restored_with_other_workers_and_stores(
    tmp_path: Path, store: str, other: str, workers: int
) -> None:
    """The restored run emits and stores what the first one would have: time, timers and waiting rows included."""
    run = m.run([Echo(), Waits()], VISIT, workers=2, store=store, order="event")
    run.step([(key, second(n), n) for n, key in enumerate("abcdef")])
    run.checkpoint(tmp_path / "c")
    with pytest.raises(CheckpointError, match="is not an empty folder"):
        run.checkpoint(tmp_path / "c")
    again = m.restore(tmp_path / "c", [Echo(), Waits()], workers=workers, store=other)
    assert (again.epoch, again.watermark, again.workers) == (1, run.watermark, workers)
    for time in (4, 7, 40):
        pd.testing.assert_frame_equal(run.advance(second(time)), again.advance(second(time)))
    assert again.state()["rows"].sum() == 0


def changed(body: dict[str, Any], key: str = "") -> m.Operator:
    """The operator Saved with other states."""
    states = {"n": m.Reducing("INT", "sum"), "tail": m.List("INT", ttl="1 hour"), "by": m.Map("INT", "INT")}
    kind = type(
        "Saved", (m.Operator,), {**states, "row": lambda self, key, row, out: self.n.add(1), "key": key, **body}
    )
    return kind()


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ({"n": m.Reducing("BIGINT", "sum")}, "Saved.n: the type was INT in the checkpoint, and is BIGINT now"),
        ({"n": m.Reducing("INT", "max")}, "Saved.n: the reducer was sum in the checkpoint, and is max now"),
        ({"n": m.Value("INT")}, "Saved.n: the state was Reducing in the checkpoint, and is Value now"),
        ({"tail": m.List("INT")}, "Saved.tail: the ttl was True in the checkpoint, and is False now"),
        ({"by": m.Map("STRING", "INT")}, "Saved.by: the type was MAP<INT, INT> in the checkpoint"),
        ({"by": None}, "Saved.by is in the checkpoint, but no longer declared"),
        ({"key": "x"}, "Saved: the key was"),
        ({"order": "event"}, "Saved: the order was arrival"),
    ],
)
def test_a_state_that_was_changed_is_refused_at_restore(tmp_path: Path, body: dict[str, Any], rule: str) -> None:
    """The error names the operator, the state, and what was changed."""
    m.run(changed({}), VISIT).checkpoint(tmp_path / "c")
    with pytest.raises(CheckpointError) as caught:
        m.restore(tmp_path / "c", changed(body))
    assert rule in str(caught.value)


def test_added_states_and_another_time_to_live_are_allowed(tmp_path: Path) -> None:
    """A new state is empty; the old ones are as they were."""
    run = m.run(changed({}), VISIT)
    run.step([("a", second(0), 1)])
    run.checkpoint(tmp_path / "c")
    more = m.restore(tmp_path / "c", changed({"extra": m.List("INT"), "tail": m.List("INT", ttl="2 hours")}))
    assert more.read("n", key="a") == 1 and more.read("extra", key="a") is None
    with pytest.raises(CheckpointError, match="has the operators"):
        m.restore(tmp_path / "c", [changed({}), Sum()])


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    """A missing or altered file, another format and a folder that is none: each is named."""
    run = m.run(changed({}), VISIT)
    run.step([("a", second(0), 1)])

    def broken(name: str) -> Path:
        run.checkpoint(tmp_path / name)
        return tmp_path / name

    torn = broken("torn")
    file = torn / "0-Saved" / "state"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    gone = broken("gone")
    (gone / "0-Saved" / "state").unlink()
    edited = broken("edited")
    manifest = json.loads((edited / "manifest.json").read_text())
    manifest["manifest"] = manifest["manifest"].replace('"epoch": 1', '"epoch": 7')
    (edited / "manifest.json").write_text(json.dumps(manifest))
    nothing = broken("nothing")
    (nothing / "manifest.json").write_text("{}")
    for folder, rule in (
        (torn, "state was altered (SHA-256 differs)"),
        (gone, "state is missing"),
        (edited, "manifest.json was altered"),
        (nothing, "cannot be read"),
        (tmp_path, "manifest.json is missing"),
    ):
        with pytest.raises(CheckpointError) as caught:
            m.restore(folder, changed({}))
        assert rule in str(caught.value)


def test_a_rescaled_run_says_what_moved() -> None:
    """The steps of a plan, their bins, rows and bytes; 256 bins from 2 to 3 workers move 85."""
    run = m.run(Sum(), m.source("visit", "x INT", key="x"), workers=2)
    run.step([(n,) for n in range(3_000)])
    before = seconds(run.read("n"))
    steps = run.rescale(3, migration="fluid")
    assert steps["bins"].tolist() == [1] * 85 and 900 < steps["rows"].sum() < 1_100
    assert Counter(run.owners) == {0: 86, 1: 85, 2: 85} and seconds(run.read("n")) == before
    assert run.rescale(1, migration="all")["bins"].tolist() == [170]
    assert seconds(run.read("n")) == before and "workers=1" in repr(run)


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of docs/managed.md runs as it stands, and gives what its comments say."""
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / "docs" / "managed.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.MULTILINE)
    names: dict[str, Any] = {}
    exec(textwrap.dedent(blocks[0]), names)
    run = names["run"]
    assert run.workers == 3 and run.read("last", key="N1") == datetime(2013, 1, 1, 20)
    exec(textwrap.dedent(blocks[1]), names)
    total = m.run(names["Total"](), names["flights"])
    assert total.step([("N1", 5, START), ("N1", 6, START)]).values.tolist() == [["N1", 11], ["N1", 11]]
