"""Every way side by side: the same batches, the same answers, and how long each batch waited.

    thread     one thread of this process, without Spark (:mod:`.single_thread`)
    files      files in, a streaming query, files out (:mod:`.files`)
    source     the same query, whose readers and sink ask and tell the driver (:mod:`.source`)
    mailbox    tasks that ask the driver, and keep running (:mod:`.mailbox`)

From files to source only the hand-off changes; from source to mailbox, the micro-batches go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from ...errors import Error
from .challenger import Challenger, Record
from .challenger_pb2 import Batch
from .single import answers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAYS = ("thread", "files", "source", "mailbox")
Progress = Callable[[str, float], None]
"""Told which way runs, and which share of all runs is done."""


def go(way: str, address: str, session: SparkSession | None, **options: Any) -> int:
    """Answer a whole benchmark one way; returns its number. Raises Error for a way that is none, or that failed."""
    if way == "thread":
        from .single_thread import by_thread

        return by_thread(address, **options)
    if way not in WAYS:
        raise Error(f"way {way!r}: it is one of {', '.join(WAYS)}")
    if session is None:
        raise Error(f"way {way!r}: it needs a Spark session; give it one, such as ss.spark.session()")
    from .files import by_files
    from .mailbox import by_mailbox
    from .source import by_source

    return {"files": by_files, "source": by_source, "mailbox": by_mailbox}[way](address, session, **options)


def correct(record: Record, batches: Iterable[Batch], benchmark: int) -> bool:
    """Whether every answer came and is the single pass' own."""
    return record.answers == list(answers(batches, benchmark))


def records(
    batches: Sequence[Batch],
    session: SparkSession | None = None,
    ways: Sequence[str] = WAYS,
    ahead: Sequence[int] = (1, 16),
    progress: Progress | None = None,
) -> Iterator[tuple[str, int, Record, bool]]:
    """Way, batches ahead, the challenger's record, whether all answers are right: for each way with each bound."""
    total, done = len(ways) * len(ahead), 0
    with Challenger(batches) as challenger:
        for bound in ahead:
            for way in ways:
                if progress is not None:
                    progress(f"{way}, {bound} ahead", done / total)
                number = go(way, challenger.address, session, ahead=bound)
                record = challenger.record(number)
                done += 1
                yield way, bound, record, correct(record, batches, number)


def table(told: Iterable[tuple[str, int, Record, bool]]) -> pd.DataFrame:
    """A line a run, by way and ahead: batches, seconds, batches/s, p50, p95 and max (ms), whether answers are equal."""
    lines = [{"way": way, "ahead": ahead, **record.line(), "equal": equal} for way, ahead, record, equal in told]
    return pd.DataFrame(lines).set_index(["way", "ahead"])
