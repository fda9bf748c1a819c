"""Runs the same sequence of operations on engines in process and on Spark, and times each operation.

The sequence is a stream of epochs, reads, the installation of another view, and a restart.

    run      runs the sequence on one engine
    run_all  runs the sequence on every strategy, in process and on Spark
    summary  returns a table with one row per run
    waits    returns the times of reads, installation and restart, for a bar chart

Engines run one at a time, so that only one has its state in memory. Their answers are kept for comparison.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

import sharedstate_lite as ss

from ..changelog.changes import Changes
from ..engine.engine import Engine
from ..plan.view import View
from .measure import reads, timed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BINS = 2
"""The number of bins of an engine on Spark."""


@dataclass(frozen=True)
class EngineRun:
    """The results of running the sequence on one engine. ``spark`` is True if the engine runs on Spark."""

    kind: str
    spark: bool
    emitted: list[Changes]
    """The changes that the view emitted in each epoch."""
    epochs: list[float]
    """The seconds that each epoch took."""
    state: pd.DataFrame
    """The result of ``engine.state()`` after the stream and the reads."""
    reads: pd.DataFrame
    """One row per read, with the columns key, hit, rows and seconds."""
    install: float
    """The seconds that installing the second view took."""
    back: float
    """The seconds from the restart to the first answer."""
    answers: dict[Any, pd.DataFrame]
    """The answers to all reads after the restart, by key."""


def run(
    start: Callable[[], Engine],
    epochs: Iterable[Any],
    asked: Sequence[Any],
    late: View,
    lose: Callable[[Engine], Callable[[], Engine]],
) -> EngineRun:
    """Step through the epochs, read, install the view ``late``, stop the engine, recover it, and read again.

    ``start`` creates the engine. ``asked`` lists keys of its first view, which are read in order. Under partial state,
    the first of them is also read after the first epoch, so that later epochs update it. ``lose`` stops an engine and
    returns a function that recovers it.
    """
    engine = start()
    view = next(iter(engine.views))
    emitted: list[Changes] = []
    seconds: list[float] = []
    for each in epochs:
        inputs = each[1] if isinstance(each, tuple) else each
        out, took = timed(lambda inputs=inputs: engine.step(inputs))  # type: ignore[misc]
        emitted.append(out[view])
        seconds.append(took)
        if len(emitted) == 1 and engine.kind == "partial":
            engine.read(view, key=asked[0])
    told, state = reads(engine, view, asked), engine.state()
    _, installed = timed(lambda: engine.install(late))
    recover = lose(engine)

    def restart() -> tuple[Engine, pd.DataFrame]:
        back = recover()
        return back, back.read(view, key=asked[0])

    (back, first), took = timed(restart)
    answers = {key: first if key == asked[0] else back.read(view, key=key) for key in dict.fromkeys(asked)}
    back.close()
    return EngineRun(back.kind, hasattr(back, "location"), emitted, seconds, state, told, installed, took, answers)


def run_all(
    view: View,
    late: View,
    epochs: Callable[[], Iterable[Any]],
    asked: Sequence[Any],
    folder: str | Path,
    session: SparkSession,
    kinds: Iterable[str] = tuple(ss.KINDS),
) -> dict[str, EngineRun]:
    """Run every strategy in process ("full") and on Spark ("full on Spark"), and return the results by these names.

    ``epochs`` is called once per engine and returns the stream. Checkpoints are written to ``folder``.
    """
    out = {}
    for kind in kinds:
        home = Path(tempfile.mkdtemp(dir=folder))

        def here(kind: str = kind) -> Engine:
            return ss.engine(kind, [view])

        def there(kind: str = kind, home: Path = home) -> Any:
            return ss.spark.engine(kind, [view], session, checkpoint=home / "spark", bins=BINS)

        out[kind] = run(here, epochs(), asked, late, lambda e, to=home / "copy": _copied(e, to))  # type: ignore[misc]
        out[f"{kind} on Spark"] = run(there, epochs(), asked, late, lambda e: _closed(e, session))
    return out


def _copied(engine: Engine, to: Path) -> Callable[[], Engine]:
    """Write a checkpoint, stop the engine, and return a function that recovers it from the checkpoint."""
    engine.checkpoint(to)
    engine.close()
    return lambda: ss.restore(to)


def _closed(engine: Any, session: SparkSession) -> Callable[[], Engine]:
    """Stop an engine on Spark, and return a function that recovers it from the checkpoint of its last epoch."""
    engine.close()
    return lambda: ss.spark.restore(engine.location, session)


def summary(runs: Mapping[str, EngineRun]) -> pd.DataFrame:
    """Return one row per run.

    The columns epoch, read, hole, install and restart are times in ms. The times of epochs and reads are medians, where
    read covers the hits and hole the misses. The columns rows and bytes cover all state except the base tables.
    """
    lines = {}
    for name, run in runs.items():
        hit = run.reads["hit"]
        own = run.state[~run.state["base"]]
        lines[name] = {
            "epoch": 1000 * pd.Series(run.epochs).median(),
            "read": 1000 * run.reads.loc[hit, "seconds"].median(),
            "hole": 1000 * run.reads.loc[~hit, "seconds"].median(),
            "install": 1000 * run.install,
            "restart": 1000 * run.back,
            "rows": int(own["rows"].sum()),
            "bytes": int(own["bytes"].sum()),
        }
    return pd.DataFrame.from_dict(lines, orient="index")


WAITS = {
    "read": "a read of a filled key",
    "hole": "a read of a hole",
    "install": "a late view",
    "restart": "a restart, until the first answer",
}
"""The label that :func:`waits` gives to each column of :func:`summary`."""


def waits(runs: Mapping[str, EngineRun]) -> dict[str, dict[str, float]]:
    """Return the times of reads, installation and restart for ``show.waits_chart``, as {label: {run: seconds}}."""
    table = summary(runs)
    out: dict[str, dict[str, float]] = {}
    for column, said in WAITS.items():
        found = table[column].dropna()
        out[said] = {str(name): float(value) / 1000 for name, value in found.items()}
    return out


__all__ = ["BINS", "WAITS", "EngineRun", "run", "run_all", "summary", "waits"]
