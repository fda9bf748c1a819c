"""Shows an engine's state in Spark's state store as tables, while a query runs, after it stops, and after ``kill -9``.

    changes(reader, "visit[product]")    the rows that the reader's micro-batch changed, with their diffs
    batches(location)                    one row per micro-batch: its kind and epoch, and whether its state is retained

The change feed of Spark's own reader shows blobs, and reports a merge of runs as a change. So `changes` decodes the
state after two successive micro-batches and subtracts the earlier rows from the later ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ...errors import CheckpointError
from ..bins import engine_spec, tables
from ..rounds import home
from ..rounds.inbox import Inbox
from ..rounds.reader import StateReader, retained
from ..session.paths import absolute

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class EngineReader(StateReader):
    """Reads the state of an engine, whose route ``make`` builds, with an engine that has no rows. See `StateReader`."""

    def __init__(
        self, session: SparkSession, checkpoint: Path, make: Callable[[], Any], batch: int | None = None
    ) -> None:
        self.make, self.route = make, make()
        super().__init__(session, checkpoint, self.route.stages, batch)

    @property
    def kind(self) -> str:
        """The strategy: ``full``, ``shared`` or ``partial``."""
        return str(self.route.engine.kind)


def changes(after: EngineReader, operator: str) -> pd.DataFrame:
    """Return the rows that the reader's micro-batch changed in one piece of state, with their diffs.

    Raises ViewError if the operator is unknown, and TimeError if the micro-batch before it is not retained.
    """
    stage, place = tables.find(after.route, operator)
    if not after.batch:
        return tables.state(after.route, after, operator)
    before = EngineReader(after.session, after.checkpoint, after.make, after.batch - 1)
    return tables.state_rows(place, *(each.blobs(stage, [operator])[operator] for each in (after, before)))


def batches(checkpoint: str | os.PathLike[str]) -> pd.DataFrame:
    """Implement `sharedstate_lite.spark.batches`."""
    where = absolute(checkpoint)
    described = home.read(where, "views")
    options = described["options"]
    folder = where / options["generation"]
    there = set(retained(folder / "spark"))
    entries = Inbox(folder, options["began"]).entries
    rows = [(e.number, e.kind.value, e.epoch, e.void, e.number in there) for e in entries]
    out = pd.DataFrame(rows, columns=["batch", "kind", "epoch", "refused", "kept"])
    return out.astype({"batch": "int64", "epoch": "int64", "refused": "bool", "kept": "bool"})


def opened(
    checkpoint: str | os.PathLike[str],
    batch: int | None,
    session: SparkSession | None,
    place: engine_spec.Placing | None = None,
) -> EngineReader:
    """Return a reader of a checkpoint's state after one micro-batch (default: the last committed one).

    Raises CheckpointError if the checkpoint cannot be read, and TimeError if the micro-batch is not retained.
    """
    from ..session.checks import usable

    where = absolute(checkpoint)
    described = home.in_place(where, "views")
    session = usable(session, "reading a checkpoint's state")
    spec = engine_spec.parse(described, where, place)
    folder = where / described["options"]["generation"] / "spark"
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is missing, so the checkpoint is incomplete; use another one")
    return EngineReader(session, folder, spec.route, batch)
