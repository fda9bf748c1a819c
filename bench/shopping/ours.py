"""A state strategy of this kit takes the stream: ``python -m bench.shopping.ours full STREAM RECORD``.

An epoch's rows are an Arrow table with a ``diff`` column, made beforehand, strings as
strings. Timed is ``step`` with all it does to them, and handing its changes out as an
Arrow table. Partial's keys are read, untimed, when the first level is full.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

import sharedstate_lite as ss
from bench import child, measure
from bench.shopping import VIEW
from bench.shopping.record import Ints, Mark, Record, changes, code, contents, names
from bench.shopping.stream import Stream, reads

READ_SHARE = 0.1
"""Share of the keys that are read under partial state."""


class Tables:
    """The stream's epochs as Arrow tables."""

    def __init__(self, stream: Stream) -> None:
        shop = stream.shop
        self.stream = stream
        self.product = pa.array(names("product", shop.products))
        self.category = pa.array(names("category", shop.categories))
        self.user = pa.array(names("user", shop.users))

    def info(self) -> pa.Table:
        """Every product with its first category."""
        category = self.category.take(self.stream.category)
        return pa.table({"product": self.product, "category": category, "diff": pa.array([1] * len(category))})

    def epoch(self, number: int) -> dict[str, pa.Table]:
        """The relations that an epoch changes."""
        stream = self.stream
        come, gone = stream.visits(number)
        ids = np.concatenate([come, gone])
        visit = {
            "product": self.product.take(stream.product[ids]),
            "user": self.user.take(stream.user[ids]),
            "length": pa.array(stream.length[ids].astype(np.int32)),
            "diff": pa.array(np.repeat([1, -1], [len(come), len(gone)])),
        }
        part = stream.recategorised(number)
        if part.start == part.stop:
            return {"visit": pa.table(visit)}
        info = {
            "product": self.product.take(np.tile(stream.moved[part], 2)),
            "category": self.category.take(np.concatenate([stream.moved_from[part], stream.moved_to[part]])),
            "diff": pa.array(np.repeat([-1, 1], part.stop - part.start)),
        }
        return {"visit": pa.table(visit), "info": pa.table(info)}


def run(strategy: str, stream: Stream) -> Record:
    """Take the whole stream under a strategy."""
    tables = Tables(stream)
    catalog = ss.Catalog(info="product STRING, category STRING", visit="product STRING, user STRING, length INT")
    view = catalog.view(f"CREATE VIEW result AS {VIEW}")
    process, record = psutil.Process(), Record(strategy, np.full(stream.epochs, np.nan), changes([]), {})
    emitted: list[tuple[int, pa.Table]] = []
    with ss.engine(strategy, [view]) as engine:
        before = process.memory_info().rss
        engine.step({"info": tables.info()})
        for stretch in stream.stretches:
            for epoch in range(stretch.first, stretch.last):
                inputs = tables.epoch(epoch)
                start = measure.clock()
                out = engine.step(inputs)["result"].to_arrow()
                record.seconds[epoch] = measure.clock() - start
                emitted.append((epoch, out))
                child.tell((epoch + 1) / stream.epochs)
            if stretch.kind == "fill":
                if strategy == "partial" and record.filled is None:
                    record.filled = reads(stream.shop, stream.category, READ_SHARE).tolist()
                    record.filled_at = stretch.last - 1
                    for key in record.filled:
                        engine.read("result", key=(f"category-{key}",))
                bill = {str(line): int(count) for line, count in engine.bill()["bytes"].items()}
                record.marks.append(Mark(stretch.level, bill, process.memory_info().rss - before))
        answer = pa.Table.from_pandas(engine.read("result")).to_pydict()
    record.answers[stream.epochs - 1] = contents(answer)
    record.emitted = np.concatenate([changes([]), *(rows(epoch, out) for epoch, out in emitted)])
    return record


def rows(epoch: int, out: pa.Table) -> Ints:
    """An epoch's changes as numbers."""
    columns: dict[str, Any] = out.to_pydict()
    told = zip(columns["category"], columns["max_length"], columns["diff"], strict=True)
    return changes([(epoch, code(category), length, diff) for category, length, diff in told])


if __name__ == "__main__":
    # What was imported is not looked through again by every collection; a process that goes on must not do this.
    gc.collect()
    gc.freeze()
    child.side(lambda: run(sys.argv[1], Stream.load(Path(sys.argv[2]))).save(Path(sys.argv[3])))
