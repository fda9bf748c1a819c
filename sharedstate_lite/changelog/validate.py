"""Taking in an epoch: what a caller hands to ``step``, checked against catalog and base tables.

Nothing here changes state. An epoch is netted row by row before it is judged, so what
counts is the base with the net change applied: it may not hold a row fewer than zero times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ..errors import RelationError, RowError, TimeError, ViewError, shorten
from ..plan.nodes import Schema
from ..plan.view import View
from ..sql.catalog import Catalog
from ..storage.arrangement import Arrangement
from ..storage.batch import Delta
from ..storage.encoding import Strings, Words
from ..storage.multiplicity import LIMIT
from . import convert, read_tables
from .changes import Changes, as_delta


def epoch(inputs: Any, catalog: Catalog | None, strings: Strings) -> dict[str, Delta]:
    """The delta of each relation. Raises RelationError, RowError or TimeError."""
    if not isinstance(inputs, Mapping):
        raise RelationError(f"step takes {{relation: rows}}, not {type(inputs).__name__}")
    out: dict[str, Delta] = {}
    seen: tuple[str, int] | None = None
    for name, data in inputs.items():
        known, schema = relation(catalog, name)
        if known in out:
            raise RelationError(f"relation {known} is given twice; names are compared without case")
        delta, time = _delta(data, schema, known, strings)
        if time is not None:
            if seen is not None and seen[1] != time:
                raise TimeError(f"{known} is at time {time}, {seen[0]} at time {seen[1]}; a step is one epoch")
            seen = (known, time)
        out[known] = delta
    return out


def relation(catalog: Catalog | None, name: object) -> tuple[str, Schema]:
    """A relation's name as declared, and its columns; names are compared without case."""
    known = {} if catalog is None else catalog.relations
    for declared, schema in known.items():
        if isinstance(name, str) and declared.lower() == name.lower():
            return declared, schema
    raise RelationError(f"no relation is called {name}; the catalog has: {', '.join(known) or 'none'}")


def _delta(data: Any, schema: Schema, name: str, strings: Strings) -> tuple[Delta, int | None]:
    if isinstance(data, Changes):
        return as_delta(data, schema, name, strings)
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pd.DataFrame | pa.Table):
        return read_tables.table(data, schema, name, strings)
    if isinstance(data, str | Mapping) or not isinstance(data, Iterable):
        raise RowError(
            f"{name}: {type(data).__name__} is no rows; give [((value, ...), diff), ...], a table or Changes"
        )
    return read_tables.pairs(data, schema, name, strings), None


def brought(views: Sequence[View], installed: Mapping[str, View], catalog: Catalog | None) -> list[View]:
    """The views and those they stand on that are not installed yet, lowest first. Raises ViewError."""
    out: list[View] = []

    def visit(view: View) -> None:
        for below in view.uses:
            visit(below)
        if view.name not in installed and view not in out:
            out.append(view)

    names: set[str] = set()
    for view in views:
        if view.name in names:
            raise ViewError(f"view {view.name} is listed twice; list it once")
        if view.catalog is not catalog:
            raise ViewError(f"view {view.name} is of another catalog; declare it in the catalog of this engine")
        names.add(view.name)
        visit(view)
    return out


def installed(view: object, views: Mapping[str, View], catalog: Catalog | None) -> list[View]:
    """What installing a view adds, lowest first. Raises ViewError."""
    if not isinstance(view, View):
        raise ViewError(f"install takes a view made by catalog.view(...), not {type(view).__name__}")
    if view.name in views:
        raise ViewError(f"view {view.name} is installed already; drop it first, or choose another name")
    return brought([view], views, catalog)


def named(name: object, views: Mapping[str, View]) -> View:
    """The installed view of a name; names are compared without case. Raises ViewError."""
    if not isinstance(name, str):
        raise ViewError(f"a view goes by its name, not by a {type(name).__name__}; name one of: {', '.join(views)}")
    for view in views.values():
        if view.name.lower() == name.lower():
            return view
    raise ViewError(f"no view is called {name}; installed are: {', '.join(views) or 'none'}")


def leaving(view: object, views: Mapping[str, View], catalog: Catalog | None) -> View:
    """The view that dropping ``view``, or the view of that name, removes. Raises ViewError."""
    if isinstance(view, View) and view.catalog is not catalog:
        raise ViewError(f"view {view.name} is of another catalog; drop the one that is installed here by its name")
    gone = named(view.name if isinstance(view, View) else view, views)
    above = [v.name for v in views.values() if gone in v.uses]
    if above:
        raise ViewError(f"view {gone.name}: {', '.join(above)} stand on it; drop them first")
    return gone


def key_words(view: View, key: Any, strings: Strings) -> Words:
    """A key of a view as words int64[len(view.key), 1]. Raises ViewError or RowError."""
    values = tuple(key) if isinstance(key, tuple | list) else (key,)
    wanted = [view.schema[i] for i in view.key]
    if len(values) != len(wanted):
        names = ", ".join(c.name for c in wanted)
        raise ViewError(f"view {view.name}: the key {shorten(key)} has {len(values)} values; the key is ({names})")
    name = f"key of {view.name}"
    lines = [convert.from_values([v], c, name, strings) for v, c in zip(values, wanted, strict=True)]
    return np.stack(lines) if lines else np.empty((0, 1), dtype=np.int64)


def check(base: Arrangement, schema: Schema, name: str, body: Words, strings: Strings) -> None:
    """Raise RowError unless each net row, of a body of the base, leaves its multiplicity between 0 and 2**62."""
    rows, diffs = body[1 : 1 + base.layout.columns], body[1 + base.layout.columns]
    # Only a retraction can go below zero; only huge diffs can add up to too much.
    at = np.flatnonzero(diffs < 0) if int(diffs.max(initial=0)) < LIMIT >> 32 else np.arange(len(diffs))
    if not len(at):
        return
    there = base.multiplicity(rows.take(at, axis=1), body[0].take(at))
    after = there + diffs[at]
    bad = np.flatnonzero((after < 0) | (after >= LIMIT))
    if len(bad):
        first = bad[0]
        shown = convert.shown(rows[:, at[first]], schema, strings)
        if after[first] >= LIMIT:
            raise RowError(f"{name}: row {shown} would be there 2**62 times or more; use smaller multiplicities")
        raise RowError(
            f"{name}: row {shown} is retracted {-diffs[at[first]]} times and is there {there[first]} times; "
            f"a retraction must meet a row that is there at the end of the epoch, so insert it first"
        )
