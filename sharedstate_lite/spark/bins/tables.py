"""Shows state in Spark's state store as the tables of an in-process engine, and reads base tables from it.

The input is the heads and blobs that bins have written (:mod:`.bin`). In the tables, ``bytes`` is the size of the
blobs before Spark compresses them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

import numpy as np
import pandas as pd

from ...engine import state_tables
from ...engine.state_tables import StatePart
from ...errors import ViewError
from ...plan.nodes import Scan
from ...storage import wire
from ...storage.arrangement import Arrangement
from ...storage.batch import Batch, merged
from ...storage.encoding import Dictionary, Words
from ..rounds.message import BinMessage, Heads
from .route import Route, StatefulStages


class StoredState(Protocol):
    """What bins have written: their decoded heads, and the encoded runs of some pieces of a stage's state."""

    def heads(self) -> Heads: ...
    def blobs(self, stage: int, parts: Collection[str]) -> Mapping[str, list[bytes]]: ...


def state(route: StatefulStages, store: StoredState, operator: str | None = None) -> pd.DataFrame:
    """Return the table that an engine's ``state(operator)`` returns. Raises ViewError if the operator is unknown."""
    if operator is None:
        return state_table(route, store)
    stage, place = find(route, operator)
    return state_rows(place, store.blobs(stage, [operator])[operator])


def state_table(route: StatefulStages, store: StoredState) -> pd.DataFrame:
    """Return a table with one row per piece of state; see `sharedstate_lite.engine.state_tables.state_table`.

    The heads contain the number of rows in each run. The blobs of a piece are read only if rows of several runs may be
    equal: runs in the same bin, or those of a view that the route scatters over the bins.
    """
    heads = store.heads()
    rows: dict[str, int] = {}
    size: dict[str, int] = {}
    for stage in range(1, route.stages + 1):
        places, bins = route.parts(stage), [head["runs"] for (at, _), head in heads.items() if at == stage]
        runs = {part: [found for each in bins if (found := each.get(part))] for part in places}
        for part, found in runs.items():
            rows[part] = sum(run[2] for each in found for run in each)
            size[part] = sum(run[1] for each in found for run in each)
        unclear = [
            part
            for part, found in runs.items()
            if any(len(each) > 1 for each in found) or (part in route.scattered and len(found) > 1)
        ]
        for part, some in store.blobs(stage, unclear).items() if unclear else ():
            rows[part] = _merged(places[part], some, Dictionary()).shape[1]
    used = {n.relation for v in route.engine.views.values() for n in v.plan.walk() if isinstance(n, Scan)}
    shown = [h for h in route.engine.state_parts() if not h.base or h.relation in used or rows.get(h.operator)]
    out = state_tables.state_table(shown, Dictionary())
    out["rows"] = [rows.get(h.operator, 0) for h in shown]
    out["bytes"] = [size.get(h.operator, 0) for h in shown]
    return out


def find(route: StatefulStages, operator: str) -> tuple[int, StatePart]:
    """Return (stage, piece of state) for the name ``operator``. Raises ViewError if the name is unknown."""
    for stage in range(1, route.stages + 1):
        found = route.parts(stage).get(operator)
        if found is not None:
            return stage, found
    known = ", ".join(h.operator for h in route.engine.state_parts())
    raise ViewError(f"unknown operator {operator}; state() lists: {known}")


def state_rows(place: StatePart, blobs: Iterable[bytes], removed: Iterable[bytes] = ()) -> pd.DataFrame:
    """Return the consolidated rows in ``blobs`` with their diffs, after subtracting the rows in ``removed``."""
    strings = Dictionary()
    runs = [_batch(place.arrangement, blob, strings, 1) for blob in blobs]
    runs += [_batch(place.arrangement, blob, strings, -1) for blob in removed]
    shown = Arrangement(place.arrangement.name, place.arrangement.layout)
    shown.runs = runs
    of = StatePart(place.operator, place.relation, place.kind, shown, place.schema, place.bill)
    return state_tables.state_rows(place.operator, [of], strings)


def _batch(arrangement: Arrangement, blob: bytes, strings: Dictionary, sign: int) -> Batch:
    lines = wire.decode(blob, strings)
    lines[arrangement.layout.columns :] *= sign
    # The sort words stay zero, because these rows are only shown or sent, and neither depends on their order.
    return Batch(np.concatenate([np.zeros((1, lines.shape[1]), dtype=np.int64), lines]), 0)


def bases(route: StatefulStages) -> dict[str, tuple[int, StatePart]]:
    """Return the base tables by name, each as (stage, piece of state)."""
    every = {h.operator: h for h in route.engine.state_parts() if h.base}
    return {name: find(route, name) for name in every}


def reload(place: StatePart, blobs: Iterable[bytes], to: Route, bins: int) -> list[BinMessage]:
    """Return messages that send one bin's rows of the base table ``place`` to the bins of another route, ``to``."""
    strings = Dictionary()
    body = _merged(place, blobs, strings)
    return to.relation_messages(place.relation, place.arrangement.layout.delta(body), bins, strings)


def _merged(place: StatePart, blobs: Iterable[bytes], strings: Dictionary) -> Words:
    batches = [_batch(place.arrangement, blob, strings, 1) for blob in blobs]
    return merged(batches, place.arrangement.layout, strings)
