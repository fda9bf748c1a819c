"""A task that has finished and runs again, because its executor was lost: both attempts write the same."""

from __future__ import annotations

import json
import random
from collections import Counter, OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from bags import merging_slowly
from partial_rehearsal import PartialRehearsal
from rehearsal import Rehearsal
from support import bag, tuples

import sharedstate_lite as ss
from sharedstate_lite import managed as m
from sharedstate_lite.managed.run import chained
from sharedstate_lite.managed.spark.bin import ManagedRecipe
from sharedstate_lite.managed.spark.log import BatchLog
from sharedstate_lite.managed.spark.rows import sorted_rows
from sharedstate_lite.spark.rounds import worker
from sharedstate_lite.spark.rounds.inbox import InboxEntry, RoundKind
from sharedstate_lite.spark.rounds.local import LocalRounds, LocalStore
from sharedstate_lite.spark.rounds.message import BinMessage, WriteBuffer
from sharedstate_lite.storage import wire
from sharedstate_lite.storage.encoding import NULL, Dictionary


class Recorded(WriteBuffer):
    """The store of one attempt: it reads from a copy of the store, and keeps what the attempt writes."""

    def __init__(self, store: LocalStore) -> None:
        super().__init__()
        self.store = store.copy()

    def head(self) -> str | None:
        return self.store.head()

    def run(self, part: str, name: str) -> bytes:
        return self.store.run(part, name)


class Executors:
    """Two executors, each with the bins in the memory of its worker. Half of all tasks finish on both.

    The files of the store keep what the first attempt has written. The next task reads what the last attempt has
    written, which is in the executor's memory, until the executor is lost.
    """

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.memory: dict[Any, LocalStore] = {}
        self.files: dict[Any, LocalStore] = {}
        self.caches: list[OrderedDict[Any, Any]] = [OrderedDict(), OrderedDict()]
        self.repeated = self.lost = 0

    def run(self, work: Any, stage: int, number: int, messages: list[BinMessage]) -> list[BinMessage]:
        """Run a bin for a micro-batch."""
        memory, files = (each.setdefault((stage, number), LocalStore()) for each in (self.memory, self.files))
        first = self.draw.randrange(2)
        twice = self.draw.random() < 0.5
        self.repeated += twice
        attempts = []
        for at in (first, 1 - first)[: 1 + twice]:
            self.draw.shuffle(messages)
            attempts.append(Recorded(memory))
            before, worker._cached = worker._cached, self.caches[at]
            try:
                out = worker.run_bin(work, stage, number, messages, attempts[-1])
            finally:
                worker._cached = before
        for store, attempt in ((files, attempts[0]), (memory, attempts[-1])):
            for write in attempt.writes:
                store.write(*write)
        assert files.runs.keys() == memory.runs.keys() and written(files) == written(memory)
        if self.draw.random() < 0.3:
            self.lost += 1
            self.memory[stage, number] = files.copy()
            self.caches[self.draw.randrange(2)].clear()
        return out


def written(store: LocalStore) -> Any:
    """The head, without the process that wrote it and the number of bytes of each run, in which strings vary."""
    head = json.loads(store.text or '{"runs": {}}')
    runs = {part: [(name, rows, lower) for name, _, rows, lower in each] for part, each in head["runs"].items()}
    return {name: value for name, value in head.items() if name not in ("by", "port")} | {"runs": runs}


def rows_of(blobs: list[bytes], strings: Dictionary) -> Counter[Any]:
    """The rows of runs, of which each blob has one, whose diffs do not add up to 0."""
    found: Counter[Any] = Counter()
    for blob in blobs:
        for *row, diff in zip(*wire.decode(blob, strings).tolist(), strict=True):
            found[tuple(row)] += diff
    return Counter({row: count for row, count in found.items() if count})


@pytest.fixture
def slow_merges() -> Iterator[None]:
    """Merges of a few rows take several epochs."""
    with merging_slowly():
        yield


class OnExecutors(LocalRounds):
    """Rounds whose tasks run on these executors."""

    executors: Executors

    def run_bin(self, stage: int, number: int, messages: list[BinMessage], store: LocalStore) -> list[BinMessage]:
        return self.executors.run(self.recipe, stage, number, messages)


class Twice(Rehearsal):
    """The engine over bins, in these rounds."""

    rounds_class = OnExecutors
    _query: OnExecutors


class PartialTwice(PartialRehearsal):
    """Partial state, in these rounds."""

    rounds_class = OnExecutors
    _query: Any


@pytest.mark.parametrize("kind", ["full", "shared"])
@pytest.mark.parametrize("seed", range(2))
def test_views_over_tasks_that_run_twice(kind: str, seed: int, slow_merges: None) -> None:
    """Every epoch emits what one process emits, whichever attempt wrote the files and whichever is in memory."""
    catalog = ss.Catalog(info="product STRING, category STRING", visit="product STRING, user STRING, length INT")
    view = catalog.view("""CREATE VIEW result AS SELECT category, MAX(length) AS longest, COUNT(*) AS n
                           FROM info JOIN visit USING (product) GROUP BY category""")
    draw, there = random.Random(seed), Executors(seed)
    with ss.engine(kind, [view]) as one, Twice(kind, [view], bins=2) as many:
        many._query.executors = there
        stored: list[Any] = []
        for _ in range(30):
            gone = [stored.pop(draw.randrange(len(stored))) for _ in range(min(len(stored), draw.randrange(3)))]
            fresh = [(f"p{draw.randrange(9)}", f"u{draw.randrange(4)}", draw.randrange(50)) for _ in range(4)]
            stored += fresh
            step = {
                "info": [((f"p{draw.randrange(9)}", f"c{draw.randrange(3)}"), 1)],
                "visit": [(row, -1) for row in gone] + [(row, 1) for row in fresh],
            }
            assert bag(many.step(step)["result"]) == bag(one.step(step)["result"])
    assert there.repeated > 20 and there.lost > 10


@pytest.mark.parametrize("seed", range(2))
def test_partial_state_over_tasks_that_run_twice(seed: int, slow_merges: None) -> None:
    """Reads, and emitted changes of filled keys, are those of full state; hits change nothing, in memory neither."""
    catalog = ss.Catalog(info="product STRING, category STRING", visit="product STRING, user STRING, length INT")
    view = catalog.view("""CREATE VIEW result AS SELECT category, MAX(length) AS longest, COUNT(*) AS n
                           FROM info JOIN visit USING (product) GROUP BY category""")
    draw, there, filled = random.Random(seed), Executors(seed), set[str]()
    with ss.engine("full", [view]) as one, PartialTwice([view], bins=2) as many:
        many._query.executors = there
        stored: list[Any] = []
        for _ in range(20):
            gone = [stored.pop(draw.randrange(len(stored))) for _ in range(min(len(stored), draw.randrange(3)))]
            fresh = [(f"p{draw.randrange(9)}", f"u{draw.randrange(4)}", draw.randrange(50)) for _ in range(4)]
            stored += fresh
            step = {
                "info": [((f"p{draw.randrange(9)}", f"c{draw.randrange(3)}"), 1)],
                "visit": [(row, -1) for row in gone] + [(row, 1) for row in fresh],
            }
            whole = bag(one.step(step)["result"])
            assert bag(many.step(step)["result"]) == {row: d for row, d in whole.items() if row[0] in filled}
            for key in draw.choices(["c0", "c1", "c2", "nowhere"], k=2):
                assert tuples(many.read("result", key=key)) == tuples(one.read("result", key=key))
                filled.add(key)
            if draw.random() < 0.3:
                many.evict("result", key=(key := f"c{draw.randrange(3)}"))
                filled.discard(key)
    assert there.repeated > 20 and there.lost > 10


class Recent(m.Operator):
    """The rows of a key since a minute ago, and a count for ever."""

    out = "k STRING, t TIMESTAMP, n BIGINT, seen LIST<INT>"
    total = m.Reducing("BIGINT", "sum")
    recent = m.Ordered("x INT", ttl="1 minutes")
    quiet = m.Timer()

    def row(self, key: Any, row: Any, out: Any) -> None:
        """Emit both."""
        self.total.add(1)
        self.recent.add(row["x"])
        self.quiet.set(row["t"] + pd.Timedelta(seconds=30))
        out(key, row["t"], self.total.get(), [each["x"] for each in self.recent.range()])

    def on_quiet(self, key: Any, at: Any, out: Any) -> None:
        """Say so."""
        out(key, at, None, None)


class Totals(m.Operator):
    """By another key."""

    key = "n"
    out = "n BIGINT, rows BIGINT"
    rows_of = m.Reducing("BIGINT", "sum")

    def row(self, key: Any, row: Any, out: Any) -> None:
        """Count."""
        self.rows_of.add(1)
        out(key, self.rows_of.get())


@pytest.mark.parametrize("seed", range(2))
def test_managed_state_over_tasks_that_run_twice(seed: int, slow_merges: None, tmp_path: Path) -> None:
    """The same for operators with managed state whose bins move: what they emit, in which order, and what is stored."""
    bins, slots, there, draw = 4, 2, Executors(seed), random.Random(seed)
    source = m.source("reading", "k STRING, t TIMESTAMP, x INT", key="k", time="t", delay="10 seconds", late="drop")
    chain, entries = chained([Recent(), Totals()], source, None), list[InboxEntry]()
    work = ManagedRecipe("twice", bins, chain, source, slots)
    log = BatchLog(chain, source, tmp_path, entries, [0] * bins, slots)
    fields, start = chain[-1].out.fields, pd.Timestamp("2024-01-01")

    def batch(file: Path | None) -> pd.DataFrame:
        sent, about = log.next(file, NULL, None)
        entries.append(InboxEntry(len(entries), RoundKind.EPOCH, about["epoch"], "", about=about))
        for stage in (1, 2):
            mine = [each for each in sent if each.stage == stage]
            sent = [each for each in sent if each.stage != stage]
            for n in sorted({each.bin for each in mine}):
                sent += there.run(work, stage, n, [each for each in mine if each.bin == n])
        log.steps = about["steps"]
        log.clean()
        return sorted_rows([each.blob for each in sent], fields, Dictionary())[0].frame()

    with m.run([Recent(), Totals()], source, bins=bins) as one:
        for epoch in range(1, 31):
            if epoch == 19:
                assert sorted(log.last["owners"]) == [0, 0, 1, 1]
            if epoch in (8, 20):
                assert log.rescale(2 if epoch == 8 else 1, "fluid") == 2
            times = [start + pd.Timedelta(seconds=5 * epoch + draw.randrange(20)) for _ in range(6)]
            rows = pd.DataFrame({"k": [f"k{draw.randrange(12)}" for _ in times], "t": times,
                                 "x": [draw.randrange(5) for _ in times]})  # fmt: skip
            rows = rows.astype({"t": "datetime64[us]", "x": "Int32"})
            pa.parquet.write_table(pa.Table.from_pandas(rows, preserve_index=False), tmp_path / f"{epoch}.parquet")
            expected = one.step(rows)
            pd.testing.assert_frame_equal(batch(tmp_path / f"{epoch}.parquet"), expected)
            last = log.last
            assert (last["epoch"], last["after"], last["late"]) == (one.epoch, one.micros, one.late)
        while log.moving:
            assert batch(None).empty
        assert log.last["owners"] == [0] * bins
        for stage, instance in enumerate(one.instances[0], 1):
            for relation in instance.relations:
                blobs = [blob for (at, _), store in there.files.items() if at == stage
                         for (part, _), blob in store.runs.items() if part == relation.name]  # fmt: skip
                stored = instance.store.scan(relation.name).tolist()
                assert rows_of(blobs, instance.strings) == Counter(zip(*stored, strict=True))
    assert there.repeated > 20 and there.lost > 10 and one.late
