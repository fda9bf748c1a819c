"""One sequence of work for engines in process and on Spark: a stream, reads, a late view, a restart; each timed.

    run      the sequence for one engine; run_all: for every strategy, in process and on Spark, one after the other
    summary  one row for each run; waits: the times that happened once, for a bar chart

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


@dataclass(frozen=True)
class EngineRun:
    """The result of one engine."""

    kind: str
    spark: bool
    emitted: list[Changes]
    """The changes of the view in each epoch."""
    epochs: list[float]
    """Seconds of each epoch."""
    state: pd.DataFrame
    """``state()`` after the stream and the reads."""
    reads: pd.DataFrame
    """Columns: key, hit, rows, seconds."""
    install: float
    """Seconds of the late view."""
    back: float
    """Seconds from a restart to the first answer."""
    answers: dict[Any, pd.DataFrame]
    """By key, after the restart."""


def run(
    start: Callable[[], Engine],
    epochs: Iterable[Any],
    asked: Sequence[Any],
    late: View,
    lose: Callable[[Engine], Callable[[], Engine]],
) -> EngineRun:
    """Step through the epochs, read, install the view ``late``, end the engine, recover it, and read again.

    ``asked`` are keys of the engine's first view, read in order. Under partial state the first of them is also read
    after the first epoch, so that the stream updates it. ``lose`` ends an engine and returns a function that recovers
    it.
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
    """The result of every strategy in process ("full") and on Spark with two bins ("full on Spark").

    ``epochs()`` returns the stream, once for each engine. Checkpoints go to ``folder``.
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
    """End an engine in process; recover it from a checkpoint."""
    engine.checkpoint(to)
    engine.close()
    return lambda: ss.restore(to)


def _closed(engine: Any, session: SparkSession) -> Callable[[], Engine]:
    """End an engine on Spark; recover it from the checkpoint that it writes with every epoch."""
    engine.close()
    return lambda: ss.spark.restore(engine.location, session)


def summary(runs: Mapping[str, EngineRun]) -> pd.DataFrame:
    """One row for each run. Columns: epoch, read (a hit), hole, install, restart in ms (medians); rows, bytes.

    Rows and bytes are those of all state except the base tables.
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
"""What :func:`waits` calls the columns of :func:`summary`."""


def waits(runs: Mapping[str, EngineRun]) -> dict[str, dict[str, float]]:
    """The times that happened once or a few times, for ``show.waits_chart``: {what: {run: seconds}}."""
    table = summary(runs)
    out: dict[str, dict[str, float]] = {}
    for column, said in WAITS.items():
        found = table[column].dropna()
        out[said] = {str(name): float(value) / 1000 for name, value in found.items()}
    return out


__all__ = ["BINS", "WAITS", "EngineRun", "run", "run_all", "summary", "waits"]
