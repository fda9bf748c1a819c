"""Every way side by side: the same batches, the same answers, and the latency of each batch.

    thread     one thread of this process, without Spark (:mod:`.single_thread`)
    files      files in, a streaming query, files out (:mod:`.files`)
    source     the same query; its readers and its sink ask the driver (:mod:`.source`)
    mailbox    long-running tasks that ask the driver (:mod:`.mailbox`)

From files to source only the hand-off changes. From source to mailbox, micro-batches go.
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
"""Called with the running way, and the share of all runs that is done."""


def go(way: str, address: str, session: SparkSession | None, **options: Any) -> int:
    """Solve a benchmark in one way; returns its number. Raises Error for an unknown way, and if it fails."""
    if way == "thread":
        from .single_thread import by_thread

        return by_thread(address, **options)
    if way not in WAYS:
        raise Error(f"way {way!r} is unknown. Pass one of {', '.join(WAYS)}.")
    if session is None:
        raise Error(f"way {way!r} needs a Spark session. Pass one, such as ss.spark.session().")
    from .files import by_files
    from .mailbox import by_mailbox
    from .source import by_source

    return {"files": by_files, "source": by_source, "mailbox": by_mailbox}[way](address, session, **options)


def correct(record: Record, batches: Iterable[Batch], benchmark: int) -> bool:
    """Whether every answer arrived and equals the single pass's answer."""
    return record.answers == list(answers(batches, benchmark))


def records(
    batches: Sequence[Batch],
    session: SparkSession | None = None,
    ways: Sequence[str] = WAYS,
    ahead: Sequence[int] = (1, 16),
    progress: Progress | None = None,
) -> Iterator[tuple[str, int, Record, bool]]:
    """For each way and each bound: way, bound, the challenger's record, and whether all answers are right."""
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
    """One row for each run, by way and ahead: batches, seconds, batches/s, p50, p95 and max in ms, equal."""
    lines = [{"way": way, "ahead": ahead, **record.line(), "equal": equal} for way, ahead, record, equal in told]
    return pd.DataFrame(lines).set_index(["way", "ahead"])
