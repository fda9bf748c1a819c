"""Reads the input of one ``step``, and checks it against the catalog and the base tables. Does not change state.

An epoch is consolidated before it is checked. Within an epoch, a retraction can therefore come before the insertion
that it retracts. A multiplicity must not be negative at the end of the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa

from .. import loops
from ..errors import RelationError, RowError, TimeError
from ..plan.nodes import Schema
from ..sql.catalog import Catalog
from ..storage.arrangement import Arrangement
from ..storage.batch import Delta
from ..storage.encoding import Dictionary, Words
from . import convert, read_tables
from .changes import Changes, as_delta


def epoch(inputs: Any, catalog: Catalog | None, strings: Dictionary) -> dict[str, Delta]:
    """Convert the argument of ``step`` to one delta per relation. Raises RelationError, RowError or TimeError."""
    if not isinstance(inputs, Mapping):
        raise RelationError(f"step expects a mapping {{relation: rows}}, not {type(inputs).__name__}")
    out: dict[str, Delta] = {}
    first: tuple[str, int] | None = None
    for name, data in inputs.items():
        known, schema = relation(catalog, name)
        if known in out:
            raise RelationError(f"relation {known} appears twice; relation names are case-insensitive")
        delta, time = _delta(data, schema, known, strings)
        if time is not None:
            if first is not None and first[1] != time:
                raise TimeError(
                    f"{known} is at time {time}, but {first[0]} is at time {first[1]}; "
                    "all rows of a step must have the same time"
                )
            first = (known, time)
        out[known] = delta
    return out


def relation(catalog: Catalog | None, name: object) -> tuple[str, Schema]:
    """Return a relation's name in its declared spelling, and its columns. The case of ``name`` is ignored.

    Raises RelationError if the catalog does not contain the relation.
    """
    known = {} if catalog is None else catalog.relations
    for declared, schema in known.items():
        if isinstance(name, str) and declared.lower() == name.lower():
            return declared, schema
    raise RelationError(f"there is no relation named {name}; the catalog contains: {', '.join(known) or 'none'}")


def _delta(data: Any, schema: Schema, name: str, strings: Dictionary) -> tuple[Delta, int | None]:
    if isinstance(data, Changes):
        return as_delta(data, schema, name, strings)
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pd.DataFrame | pa.Table):
        return read_tables.table(data, schema, name, strings)
    if isinstance(data, str | Mapping) or not isinstance(data, Iterable):
        raise RowError(
            f"{name}: cannot read rows from {type(data).__name__}; pass [((value, ...), diff), ...], a table or Changes"
        )
    return read_tables.pairs(data, schema, name, strings), None


def check(base: Arrangement, schema: Schema, name: str, body: Words, strings: Dictionary) -> None:
    """Raise RowError if the multiplicity of a row would be negative after ``body`` is added to the base table."""
    rows, diffs = body[1 : 1 + base.layout.columns], body[1 + base.layout.columns]
    stored = base.multiplicity(body)
    at = loops.below_zero(stored, diffs)
    if at >= 0:
        shown = convert.format_row(rows[:, at], schema, strings)
        raise RowError(
            f"{name}: row {shown} cannot be retracted, because its multiplicity would be {stored[at] + diffs[at]} "
            f"(stored: {stored[at]}, this epoch: {diffs[at]}); insert it in this epoch or an earlier one"
        )
