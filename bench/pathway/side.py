"""Pathway takes the stream: run by its own environment's Python, ``python -m bench.pathway.side STREAM RECORD``.

Rows go in through the documented connector, ConnectorSubject with ``next``, ``delete``
and one ``commit`` an epoch, from Python values that are ready beforehand; changes come
out through ``subscribe``. Timed is from the first row of an epoch handed over to the
end of its time as the subscription sees it. Except in a pipelined stretch, the next
epoch is handed over only then, so that epochs are answered one at a time, as on the
other sides.

A subscription is told of a time's end only where the time changed something. So each
epoch also replaces the one visit of a product "tick", which is in a category of its
own: two rows more, which are left out of what is compared.

One worker (PATHWAY_THREADS=1), no monitoring, no network.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["PATHWAY_THREADS"] = "1"

import numpy as np  # noqa: E402 - the number of workers is read when Pathway is imported
import pathway as pw  # type: ignore[import-not-found]  # noqa: E402 - in this side's environment alone
import psutil  # noqa: E402

from bench import child, measure  # noqa: E402
from bench.shopping.record import Mark, Record, changes, code, names  # noqa: E402
from bench.shopping.stream import Stream, Stretch  # noqa: E402

INIT_GLOBAL = "tick"
Row = tuple[int, str, str, int]


class Info(pw.Schema):  # type: ignore[misc]
    """Products and their categories."""

    product: str = pw.column_definition(primary_key=True)
    category: str


class Visit(pw.Schema):  # type: ignore[misc]
    """Visits, by number: Pathway finds the row that is retracted by its primary key."""

    id: int = pw.column_definition(primary_key=True)
    product: str
    user: str
    length: int


class Run:
    """The stream on its way through Pathway: two threads, the reader's and the worker's."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.product = names("product", stream.shop.products)
        self.category = names("category", stream.shop.categories)
        self.user = names("user", stream.shop.users)
        self.started = np.full(stream.epochs, np.nan)
        self.ended: list[float] = []
        self.counted: list[int] = []
        self.seen: list[tuple[str, int, bool]] = []
        self.marks: list[Mark] = []
        self.info_there = threading.Event()
        self.turn = threading.Condition()
        self.process = psutil.Process()
        self.before = 0

    def on_change(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        """The worker hands out a change."""
        self.seen.append((row["category"], row["max_length"], is_addition))

    def on_time_end(self, time: int) -> None:
        """The worker has answered an epoch."""
        with self.turn:
            self.ended.append(measure.clock())
            self.counted.append(len(self.seen))
            self.turn.notify_all()

    def answered(self, epoch: int) -> None:
        """Wait until the epoch is answered."""
        with self.turn:
            self.turn.wait_for(lambda: len(self.ended) > epoch)

    def epoch(self, number: int) -> tuple[list[Row], list[Row]]:
        """The rows to insert and to delete, as Python values."""
        come, gone = (self._rows(ids) for ids in self.stream.visits(number))
        come.append((-1 - number, INIT_GLOBAL, "", number))
        if number:
            gone.append((-number, INIT_GLOBAL, "", number - 1))
        return come, gone

    def _rows(self, ids: Any) -> list[Row]:
        stream = self.stream
        product = [self.product[i] for i in stream.product[ids].tolist()]
        user = [self.user[i] for i in stream.user[ids].tolist()]
        return list(zip(ids.tolist(), product, user, stream.length[ids].tolist(), strict=True))

    def infos(self) -> Iterator[tuple[str, str]]:
        """Products with their categories."""
        yield from zip(self.product, (self.category[c] for c in self.stream.category.tolist()), strict=True)
        yield INIT_GLOBAL, INIT_GLOBAL


class Infos(pw.io.python.ConnectorSubject):  # type: ignore[misc]
    """Hands over all of info, once."""

    _deletions_enabled = False

    def __init__(self, work: Run) -> None:
        super().__init__()
        self.work = work

    def run(self) -> None:
        """Called by Pathway in the reader's thread."""
        for product, category in self.work.infos():
            self.next(product=product, category=category)


class Visits(pw.io.python.ConnectorSubject):  # type: ignore[misc]
    """Hands over the visits, an epoch to a commit."""

    _deletions_enabled = True

    def __init__(self, work: Run) -> None:
        super().__init__()
        self.work = work

    def run(self) -> None:
        """Called by Pathway in the reader's thread."""
        self.work.info_there.wait()
        for stretch in self.work.stream.stretches:
            if stretch.kind == "pipelined":
                for number, rows in [(e, self.work.epoch(e)) for e in range(stretch.first, stretch.last)]:
                    self.hand_over(number, rows)
                self.work.answered(stretch.last - 1)
            else:
                self.one_by_one(stretch)

    def one_by_one(self, stretch: Stretch) -> None:
        """The next epoch only after the last one's answer."""
        work = self.work
        for number in range(stretch.first, stretch.last):
            self.hand_over(number, work.epoch(number))
            work.answered(number)
            child.tell((number + 1) / work.stream.epochs)
        if stretch.kind == "fill":
            grown = work.process.memory_info().rss - work.before
            work.marks.append(Mark(stretch.level, resident=grown))

    def hand_over(self, number: int, rows: tuple[list[Row], list[Row]]) -> None:
        """One epoch, committed."""
        self.work.started[number] = measure.clock()
        for id, product, user, length in rows[0]:
            self.next(id=id, product=product, user=user, length=length)
        for id, product, user, length in rows[1]:
            self.delete(id=id, product=product, user=user, length=length)
        self.commit()


def run(stream: Stream) -> Record:
    """Take the whole stream."""
    if len(stream.moved):
        raise ValueError(
            "this stream changes two relations in an epoch, and Pathway's connectors commit each by itself"
        )
    logging.getLogger().setLevel(logging.WARNING)
    work = Run(stream)
    info = pw.io.python.read(Infos(work), schema=Info, autocommit_duration_ms=None)
    visit = pw.io.python.read(Visits(work), schema=Visit, autocommit_duration_ms=None)
    joined = visit.join(info, visit.product == info.product).select(info.category, visit.length)
    result = joined.groupby(pw.this.category).reduce(pw.this.category, max_length=pw.reducers.max(pw.this.length))
    pw.io.subscribe(info, lambda **change: None, on_time_end=lambda time: work.info_there.set())
    pw.io.subscribe(result, work.on_change, on_time_end=work.on_time_end)
    gc.collect()
    gc.freeze()
    work.before = work.process.memory_info().rss
    pw.run(monitoring_level=pw.MonitoringLevel.NONE, default_logging=False)
    if len(work.ended) != stream.epochs:
        raise ValueError(f"Pathway ended {len(work.ended)} times for {stream.epochs} epochs; they cannot be told apart")
    return record(work)


def record(work: Run) -> Record:
    """What was seen, as every side tells it."""
    ends = np.array(work.ended)
    seconds = ends - work.started
    together = {}
    for stretch in work.stream.stretches:
        if stretch.kind == "pipelined":
            together[stretch.first] = float(ends[stretch.last - 1] - work.started[stretch.first])
            seconds[stretch.first : stretch.last] = np.nan
    epoch_of = np.searchsorted(work.counted, np.arange(len(work.seen)), side="right").tolist()
    rows = [
        (epoch, code(category), length, 1 if added else -1)
        for epoch, (category, length, added) in zip(epoch_of, work.seen, strict=True)
        if category != INIT_GLOBAL
    ]
    return Record(f"Pathway {pw.__version__}", seconds, changes(rows), {}, work.marks, together)


if __name__ == "__main__":
    child.side(lambda: run(Stream.load(Path(sys.argv[1]))).save(Path(sys.argv[2])))
