"""The state of partial engines as tables: pieces in the bins, filled keys, and base tables.

The functions work on a running engine, and on a checkpoint, even after ``kill -9``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ...changelog import convert
from ...storage import wire
from ...storage.encoding import Dictionary, Words
from ..bins import tables
from ..rounds.bin import Rounds
from ..rounds.inbox import Inbox
from .base import BaseTables
from .placement import Placement

if TYPE_CHECKING:
    from ..driver.store import EngineReader
    from ..rounds.reader import StateReader


def state(placement: Placement, store: Rounds | StateReader, base: BaseTables, operator: str | None) -> pd.DataFrame:
    """Return the table of ``state()``, or the rows of one piece of state. Raises ViewError if it is unknown."""
    bases = {part.operator: part for part in placement.engine.state_parts() if part.base}
    if operator in bases:
        return base.state_rows(bases[operator])
    table = tables.state(placement, store, operator)
    for row, name in enumerate(table.operator) if operator is None else ():
        if name in bases:
            table.loc[row, ["rows", "bytes"]] = base.size(bases[name].relation)
    return table


def base_tables(reader: EngineReader, batches: slice) -> BaseTables:
    """Return the base tables of a checkpoint, with the changes of some of its micro-batches."""
    folder = reader.checkpoint.parent
    return BaseTables(folder / "base", reader.route.engine.catalog.relations, Inbox(folder, 0).entries[batches])


def changes(reader: EngineReader, operator: str) -> pd.DataFrame | None:
    """Return the rows of a base table that the reader's micro-batch changed, or None for another piece of state."""
    part = next((p for p in reader.route.engine.state_parts() if p.base and p.operator == operator), None)
    return None if part is None else base_tables(reader, slice(reader.batch, reader.batch + 1)).state_rows(part)


def filled(placement: Placement, store: Rounds | StateReader, operator: str) -> list[tuple[Any, ...]]:
    """Return the filled keys of a view, an aggregate or one side of a join, sorted. Raises ViewError."""
    strings = Dictionary()
    return sorted_keys(filled_words(placement, store, operator, strings), placement, operator, strings)


def filled_words(placement: Placement, store: Rounds | StateReader, operator: str, strings: Dictionary) -> Words:
    """Return the filled keys of an operator as words int64[k, q]."""
    stage, known = placement.find_filled(operator)
    blobs = store.blobs(stage, [part := f"{operator} keys"])[part]
    parts = [wire.decode(blob, strings)[:-1] for blob in blobs]
    return np.concatenate([*parts, np.empty((len(known.types), 0), dtype=np.int64)], axis=1)


def sorted_keys(words: Words, placement: Placement, operator: str, strings: Dictionary) -> list[tuple[Any, ...]]:
    """Convert keys of an operator, words int64[k, q], to a sorted list of tuples of values. NULL sorts last."""
    types: Sequence[Any] = placement.find_filled(operator)[1].types
    columns = [convert.to_arrow(w, kind, strings).to_pylist() for w, kind in zip(words, types, strict=True)]
    keys = list(zip(*columns, strict=True)) if columns else [()] * words.shape[1]
    return sorted(keys, key=lambda key: tuple((v is None, v) if v is not None else (True, 0) for v in key))
