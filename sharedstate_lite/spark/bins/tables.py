"""Shows state in Spark's state store as the tables of an in-process engine, and reads base tables from it.

The input is the heads and blobs that bins have written (:mod:`.bin`). In the tables, ``bytes`` is the size of the
blobs before Spark compresses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

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
from .messages import BinMessage
from .route import Route, StatefulStages

Heads = Mapping[tuple[int, int], Mapping[str, Any]]
"""(stage, bin) -> the decoded head of the bin."""


def state_table(route: StatefulStages, heads: Heads, blobs: Callable[[int, str], Iterable[bytes]]) -> pd.DataFrame:
    """Return a table with one row per piece of state; see `sharedstate_lite.engine.state_tables.state_table`.

    ``blobs(stage, part)`` returns the runs of a piece. It is called only for a piece with several runs in one bin,
    whose rows can cancel.
    """
    rows: dict[str, int] = {}
    size: dict[str, int] = {}
    several: dict[str, int] = {}
    for (stage, _), head in heads.items():
        for part, runs in head["runs"].items():
            rows[part] = rows.get(part, 0) + sum(run[2] for run in runs)
            size[part] = size.get(part, 0) + sum(run[1] for run in runs)
            if len(runs) > 1:
                several[part] = stage
    for part, stage in several.items():
        if (place := route.parts(stage).get(part)) is not None:
            rows[part] = _merged(place, blobs(stage, part), Dictionary()).shape[1]
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
