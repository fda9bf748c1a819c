"""DuckDB takes the stream and recomputes the view: ``python -m bench.shopping.duck STREAM RECORD``.

Every epoch's rows are applied. In a timed stretch the view is recomputed after at most
SAMPLES epochs, evenly spread, since with a large shop each recomputation scans all of
it; an epoch's seconds are then those of applying it and the mean of the sampled
recomputations. A visit has a number here, because a table without keys cannot lose
just one of two equal rows. One thread, in memory.
"""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb
import numpy as np
import psutil
import pyarrow as pa

from bench import child, measure
from bench.shopping import VIEW
from bench.shopping.ours import Tables
from bench.shopping.record import Mark, Record, changes, contents
from bench.shopping.stream import Stream

INSERT = 'INSERT INTO visit SELECT id, product, "user", length FROM rows'
DELETE = "DELETE FROM visit WHERE id IN (SELECT id FROM rows)"
MOVE = "UPDATE info SET category = rows.category FROM rows WHERE info.product = rows.product AND diff = 1"

SAMPLES = 10
"""Recomputations in a timed stretch, at most."""


class Shop:
    """The two tables in DuckDB, and the view recomputed on demand."""

    def __init__(self, stream: Stream) -> None:
        self.stream, self.tables = stream, Tables(stream)
        self.base = duckdb.connect(":memory:", config={"threads": "1"})
        self.base.execute("CREATE TABLE info (product VARCHAR, category VARCHAR)")
        self.base.execute('CREATE TABLE visit (id BIGINT, product VARCHAR, "user" VARCHAR, length INT)')
        self._run("INSERT INTO info SELECT product, category FROM rows", self.tables.info())

    def _run(self, statement: str, rows: pa.Table) -> None:
        self.base.register("rows", rows)
        self.base.execute(statement)
        self.base.unregister("rows")

    def prepare(self, epoch: int) -> list[tuple[str, pa.Table]]:
        """The statements that apply an epoch, with their rows."""
        tables = self.tables.epoch(epoch)
        come, gone = self.stream.visits(epoch)
        visit = tables["visit"].append_column("id", pa.array(np.concatenate([come, gone])))
        told = [(DELETE, visit.slice(len(come))), (INSERT, visit.slice(0, len(come)))]
        if "info" in tables:
            told.append((MOVE, tables["info"]))
        return [(statement, rows) for statement, rows in told if rows.num_rows]

    def apply(self, statements: list[tuple[str, pa.Table]]) -> None:
        """Apply an epoch as one transaction."""
        self.base.begin()
        for statement, rows in statements:
            self._run(statement, rows)
        self.base.commit()

    def recompute(self) -> pa.Table:
        """The view's contents."""
        answer: pa.Table = self.base.sql(VIEW).to_arrow_table()
        return answer


def run(stream: Stream, samples: int = SAMPLES) -> Record:
    """Take the whole stream."""
    process = psutil.Process()
    before = process.memory_info().rss
    shop = Shop(stream)
    record = Record(f"DuckDB {duckdb.__version__}", np.full(stream.epochs, np.nan), changes([]), {})
    for stretch in stream.stretches:
        count = stretch.last - stretch.first
        sampled = {stretch.last - 1}
        if stretch.kind == "timed":
            sampled = {int(e) for e in np.linspace(stretch.first, stretch.last - 1, min(count, samples)).round()}
        recomputing = []
        for epoch in range(stretch.first, stretch.last):
            statements = shop.prepare(epoch)
            start = measure.clock()
            shop.apply(statements)
            record.seconds[epoch] = measure.clock() - start
            if epoch in sampled:
                start = measure.clock()
                answer = shop.recompute()
                recomputing.append(measure.clock() - start)
                record.answers[epoch] = contents(answer.to_pydict())
            child.tell((epoch + 1) / stream.epochs)
        record.seconds[stretch.first : stretch.last] += np.mean(recomputing)
        if stretch.kind == "timed":
            record.sampled.extend(sorted(sampled))
        if stretch.kind == "fill":
            record.marks.append(Mark(stretch.level, resident=process.memory_info().rss - before))
    return record


if __name__ == "__main__":
    child.side(lambda: run(Stream.load(Path(sys.argv[1]))).save(Path(sys.argv[2])))
