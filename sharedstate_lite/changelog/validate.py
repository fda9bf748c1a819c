"""The input of one ``step``: read, and checked against the catalog and the base tables. Changes no state.

An epoch is consolidated before it is checked. So a retraction may stand before the insertion that it retracts,
as long as no row has a negative multiplicity at the end of the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ..errors import RelationError, RowError, TimeError
from ..plan.nodes import Schema
from ..sql.catalog import Catalog
from ..storage.arrangement import Arrangement
from ..storage.batch import Delta
from ..storage.encoding import Dictionary, Words
from . import convert, read_tables
from .changes import Changes, as_delta


def epoch(inputs: Any, catalog: Catalog | None, strings: Dictionary) -> dict[str, Delta]:
    """The delta of each relation in ``inputs``. Raises RelationError, RowError or TimeError."""
    if not isinstance(inputs, Mapping):
        raise RelationError(f"step takes {{relation: rows}}, not {type(inputs).__name__}")
    out: dict[str, Delta] = {}
    first: tuple[str, int] | None = None
    for name, data in inputs.items():
        known, schema = relation(catalog, name)
        if known in out:
            raise RelationError(f"relation {known} is given twice; names are compared without case")
        delta, time = _delta(data, schema, known, strings)
        if time is not None:
            if first is not None and first[1] != time:
                raise TimeError(f"{known} is at time {time}, {first[0]} at time {first[1]}; a step is one epoch")
            first = (known, time)
        out[known] = delta
    return out


def relation(catalog: Catalog | None, name: object) -> tuple[str, Schema]:
    """A relation's name as declared, and its columns; names are compared without case. Raises RelationError."""
    known = {} if catalog is None else catalog.relations
    for declared, schema in known.items():
        if isinstance(name, str) and declared.lower() == name.lower():
            return declared, schema
    raise RelationError(f"no relation is called {name}; the catalog has: {', '.join(known) or 'none'}")


def _delta(data: Any, schema: Schema, name: str, strings: Dictionary) -> tuple[Delta, int | None]:
    if isinstance(data, Changes):
        return as_delta(data, schema, name, strings)
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pd.DataFrame | pa.Table):
        return read_tables.table(data, schema, name, strings)
    if isinstance(data, str | Mapping) or not isinstance(data, Iterable):
        raise RowError(
            f"{name}: a {type(data).__name__} holds no rows; give [((value, ...), diff), ...], a table or Changes"
        )
    return read_tables.pairs(data, schema, name, strings), None


def check(base: Arrangement, schema: Schema, name: str, body: Words, strings: Dictionary) -> None:
    """Raise RowError if a row of ``body``, added to the base table, would have a negative multiplicity."""
    rows, diffs = body[1 : 1 + base.layout.columns], body[1 + base.layout.columns]
    retracted = np.flatnonzero(diffs < 0)
    if not len(retracted):
        return
    stored = base.multiplicity(rows.take(retracted, axis=1), body[0].take(retracted))
    bad = np.flatnonzero(stored + diffs[retracted] < 0)
    if len(bad):
        at = retracted[bad[0]]
        shown = convert.format_row(rows[:, at], schema, strings)
        raise RowError(
            f"{name}: row {shown} is retracted {-diffs[at]} times but stored {stored[bad[0]]} times; "
            f"insert it before the end of the epoch"
        )
