"""The pieces of the streaming query, without a JVM."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester
from ticksdrawn import expected

from sharedstate_lite.errors import Error
from sharedstate_lite.lessons.grand_challenge.challenger_pb2 import Batch
from sharedstate_lite.lessons.grand_challenge.files import InputFolder, OutputFolder
from sharedstate_lite.lessons.grand_challenge.rows import results, rows
from sharedstate_lite.lessons.grand_challenge.run import Run
from sharedstate_lite.lessons.grand_challenge.stream import drive, operator, packed, unpacked


def test_the_operator_keeps_a_market_from_micro_batch_to_micro_batch(handed_out: list[Batch]) -> None:
    """Several batches in one micro-batch, with rows in any order, get the single pass's answers."""
    tester = TwsTester(operator())
    answers: dict[int, list[object]] = {}
    for first in range(0, len(handed_out), 8):
        lines = [Row(label=7, upto=b.seq_id, blob=packed(rows(b))) for b in handed_out[first : first + 8]]
        (out,) = tester.test(7, lines[::-1])
        assert (out["label"], out["upto"]) == (7, first + len(lines) - 1)
        for line in unpacked(bytes(out["blob"])).to_pylist():
            answers.setdefault(line["batch"], []).append(line)
    told = [results(0, number, answers[number]) for number in range(len(handed_out))]  # type: ignore[arg-type]
    assert told == expected(handed_out)


def test_files_come_whole_and_in_order(tmp_path: Path, handed_out: list[Batch]) -> None:
    """Each batch is one file with one row for each part, with a time of its own."""
    inbox = InputFolder(tmp_path / "in", [11, 22])
    for batch in handed_out[:10]:
        inbox.put(batch.seq_id, rows(batch))
    files = sorted(inbox.path.iterdir())
    stamps = [file.stat().st_mtime_ns // 1_000_000 for file in files]
    assert len(files) == 10 and stamps == sorted(set(stamps))
    tables = [pq.read_table(file) for file in files]
    assert all(table.column("label").to_pylist() == [11, 22] for table in tables)
    assert [table.column("upto").to_pylist() for table in tables] == [[n, n] for n in range(10)]
    parts = [unpacked(blob) for blob in tables[0].column("blob").to_pylist()]  # type: ignore[arg-type]
    assert sum(len(part) for part in parts) == len(rows(handed_out[0]))


def test_answers_count_when_spark_has_listed_them(tmp_path: Path) -> None:
    """Only files in Spark's lists are read, also from a compact list that repeats earlier ones."""
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    outbox, entries = OutputFolder(tmp_path), ["v1"]
    got = []
    for number, name in enumerate(["0", "1", "2.compact"]):
        file = tmp_path / f"part {number}.parquet"
        pq.write_table(pa.table({"blob": [packed(pa.table({"n": [number]}))]}), file)
        assert list(outbox.fresh()) == []
        entry = json.dumps({"path": file.as_uri()})
        entries.append(entry)
        (log / name).write_text("\n".join(entries if "compact" in name else ["v1", entry]))
        got += [table.column("n").to_pylist() for table in outbox.fresh()]
    assert got == [[0], [1], [2]]


@pytest.mark.parametrize(
    ("active", "look", "said"),
    [
        (False, lambda: None, "the query on Spark stopped: it was killed"),
        (True, lambda: json.loads("{"), "an answer could not be read: JSONDecodeError"),
    ],
)
def test_what_fails_beside_a_run_ends_it(active: bool, look: Callable[[], object], said: str) -> None:
    """If polling for answers raises, the run fails with that error."""
    run = Run.__new__(Run)  # without a challenger
    run._error, run._done, run._free = None, threading.Event(), threading.Semaphore(0)
    run.batches = lambda: iter(())  # type: ignore[method-assign]
    query: Any = SimpleNamespace(isActive=active, exception=lambda: "it was killed")
    with pytest.raises(Error, match=re.escape(said)):
        drive(run, query, lambda number, rows: None, look, 0.001)
