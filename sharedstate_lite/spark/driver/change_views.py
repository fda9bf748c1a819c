"""Changing the views of an engine: a new generation computes them from the existing base tables.

Spark does not accept a new stateful operator in an existing checkpoint, so ``install`` and ``drop`` start a new query.
Spark's tasks read each bin of each base table from the state store and write its rows as messages for the operators of
the new route. These messages are the input of the new query's first micro-batch. The cost depends on the size of the
base tables, not on the length of their history, and the rows do not pass through the driver.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from ..bins import tables
from ..bins.bin import ViewRecipe
from ..rounds.errors import retry
from ..rounds.inbox import COLUMNS
from ..rounds.message import BinMessage
from ..rounds.operator import WIRE

if TYPE_CHECKING:
    from ..rounds.query import Query
    from .store import EngineReader


def change_views(old: EngineReader, new: Query, init_globals: list[BinMessage]) -> Path | list[BinMessage]:
    """Return the first input of the query ``new``: a file, or messages if ``old`` has no rows.

    It has the base tables in ``old``, and the messages ``init_globals``.
    """
    from pyspark.sql import functions as f

    if old.batch < 0:
        return init_globals
    # Use literals, because the names of relations and columns can contain quotes.
    bases = tables.bases(old.route).items()
    parts = [old.runs(stage).where(f.col("part") == f.lit(name)) for name, (stage, _) in bases]
    stored = reduce(lambda one, other: one.union(other), parts)
    moved = stored.groupBy("bin", "part").applyInPandas(_mover(old, new), WIRE)
    if init_globals:
        rows = [(m.bin, m.stage, m.channel, m.what, m.blob) for m in init_globals]
        moved = moved.union(new.session.createDataFrame(rows, WIRE))
    frame, folder = moved.coalesce(1), new.folder / "load"
    retry(lambda: frame.write.mode("overwrite").parquet(str(folder)), "the base tables cannot be read")
    return next(folder.glob("part-*.parquet"))


def _mover(old: EngineReader, new: Query) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Return the function that workers run to turn the rows of one bin of one base table into messages."""
    recipe = new.recipe
    assert isinstance(recipe, ViewRecipe)
    here, there, bins = old.make, recipe.make, recipe.bins

    def moved(frame: pd.DataFrame) -> pd.DataFrame:
        _, place = tables.find(here(), str(frame["part"].iloc[0]))
        out = tables.reload(place, (bytes(b) for b in frame["blob"]), there(), bins)
        return pd.DataFrame([(m.bin, m.stage, m.channel, m.what, m.blob) for m in out], columns=COLUMNS)

    return moved
