"""Runs every solution on the same batches, checks the answers, and compares the latency of batches.

    thread     one thread in this process, without Spark (:mod:`.single_thread`)
    files      a streaming query that reads and writes files (:mod:`.files`)
    source     the same query, whose readers and sink use the driver instead of files (:mod:`.source`)
    mailbox    long-running tasks that send requests to the driver (:mod:`.mailbox`)

``files`` and ``source`` differ only in how batches and answers are handed over. ``mailbox`` differs from ``source`` in
that it does not use micro-batches.
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
"""A callback that receives the name of the current run and the fraction of all runs that is done."""


def go(way: str, address: str, session: SparkSession | None, **options: Any) -> int:
    """Solve a benchmark in one way, and return the number of the benchmark.

    Raises Error if the way is unknown or needs a session, or if the run fails.
    """
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
    """Return True if every answer arrived and equals the answer of the reference, :mod:`.single`."""
    return record.answers == list(answers(batches, benchmark))


def records(
    batches: Sequence[Batch],
    session: SparkSession | None = None,
    ways: Sequence[str] = WAYS,
    ahead: Sequence[int] = (1, 16),
    progress: Progress | None = None,
) -> Iterator[tuple[str, int, Record, bool]]:
    """Run each way with each bound in ``ahead``.

    Yields (way, bound, the challenger's record, True if all answers are correct).
    """
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
    """Return a table with one row per run, indexed by way and ahead.

    The columns are those of :meth:`.Record.line`, and ``equal``, which is True if all answers are correct.
    """
    lines = [{"way": way, "ahead": ahead, **record.line(), "equal": equal} for way, ahead, record, equal in told]
    return pd.DataFrame(lines).set_index(["way", "ahead"])
