"""Shows the inside of shared state: batches, entries with their times, and the paths of a delta join.

    batches  lists the batches of every arrangement, with its since and upper
    entries  lists what an arrangement stores, as (row, time, diff)
    paths    runs one epoch through a delta join, and returns its paths as a graph with the rows on each edge

Rules 11 to 14 cover this behavior. `batches` and `entries` only read. `paths` steps the engine once, and computes its
counts with the engine's own kernel (:func:`~..kernels.join.delta_path`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

from ..changelog.changes import frame
from ..dataflow.dataflow import Dataflow
from ..dataflow.operators import DeltaJoin
from ..engine.state_tables import StatePart
from ..errors import ViewError
from ..kernels.join import delta_path
from ..plan.nodes import Column
from ..storage.batch import Delta, concat


def batches(engine: Dataflow) -> pd.DataFrame:
    """Return one row for each batch, with the columns arrangement, from, to, rows, since and upper.

    A batch covers the epochs [from, to).
    """
    lines = [
        [a.name, span.lower, span.upper, span.rows, a.since, a.upper]
        for a in engine.arrangements()
        for span in a.batches
    ]
    return pd.DataFrame(lines, columns=["arrangement", "from", "to", "rows", "since", "upper"])


Entry = tuple[tuple[Any, ...], int, int]
"""A stored change, as (row, time, diff)."""


def entries(engine: Dataflow, name: str) -> list[Entry]:
    """Return the entries of one arrangement, sorted by row and time.

    A change that happened at or before ``since`` can have any time up to ``since``. Raises ViewError if no arrangement
    has this name.
    """
    held = _held(engine, name)
    arrangement = held.arrangement
    found: list[Entry] = []
    schema = tuple(Column(n, t) for n, t in zip(held.schema, arrangement.layout.types, strict=True))
    for span, run in zip(arrangement.batches, arrangement.runs, strict=False):
        width = 1 + arrangement.layout.columns
        table = frame(schema, run.body[1:width], engine.dictionary.strings).astype(object)
        rows = table.itertuples(index=False, name=None)
        times = run.body[-1].tolist() if run.timed else [span.upper - 1] * len(run)
        found += zip(rows, times, run.body[width].tolist(), strict=True)
    return sorted(found, key=lambda e: (tuple(map(repr, e[0])), e[1], e[2]))


def paths(engine: Dataflow, inputs: Any) -> tuple[tuple[pd.DataFrame, pd.DataFrame], dict[tuple[str, str], int]]:
    """Step one epoch through the engine's delta join, and return its paths for `show.graph`.

    Returns the operators and edges, in the format of ``engine.graph()``, and the number of rows on each edge. Raises
    ViewError unless the engine has exactly one delta join.
    """
    operators: list[tuple[str, str, str, str]] = []
    carried: dict[tuple[str, str], int] = {}
    with _stepped(engine, inputs) as (join, deltas, before):
        names = _relations(join)
        for start, delta in enumerate(deltas):
            at, rows = f"Δ {names[start]}", _changed(delta)
            operators.append((at, "map", at, "this epoch"))
            for depth, (step, _) in enumerate(join.paths[start], 1):
                name = f"{at} {names[step.input]}"
                reads = "epoch <= now" if step.input > start else "epoch < now"
                operators.append((name, "map", f"LOOK UP {names[step.input]}", reads))
                carried[at, name] = rows
                found = delta_path(delta, start, join.paths[start][:depth], before, join.dictionary.strings)
                at, rows = name, _changed(found)
            carried[at, "union"] = rows
    view = next(iter(engine.views))
    operators += [("union", "union", "UNION", ""), (view, "view", view, "")]
    carried["union", view] = sum(n for (_, target), n in carried.items() if target == "union")
    made = pd.DataFrame(operators, columns=["name", "kind", "title", "detail"]).assign(view=view)
    made["tables"] = [(view,) if name == view else () for name in made["name"]]
    return (made, pd.DataFrame(list(carried), columns=["source", "target"]).assign(kind="change")), carried


def _changed(delta: Delta) -> int:
    """Return the number of rows whose diffs do not add up to 0."""
    if not len(delta.diffs):
        return 0
    kind = np.unique(delta.rows, axis=1, return_inverse=True)[1].ravel()
    return int(np.count_nonzero(np.bincount(kind, weights=delta.diffs)))


@contextmanager
def _stepped(engine: Dataflow, inputs: Any) -> Iterator[tuple[DeltaJoin, list[Delta], int]]:
    """Step one epoch. Provide the delta join, the changes of its inputs and the epoch before, which stays readable."""
    join, before = _delta_join(engine), engine.epoch
    kept, engine.trace.keep_rows = engine.trace.keep_rows, True
    with engine.handle():
        engine.trace.clear()
        try:
            engine.step(inputs)
        finally:
            engine.trace.keep_rows = kept
        yield join, list(_deltas(engine, join)), before


def _delta_join(engine: Dataflow) -> DeltaJoin:
    joins = [o for o in engine.operators if isinstance(o, DeltaJoin)]
    if len(joins) != 1:
        raise ViewError(f"this needs one delta join, but the engine has {len(joins)}. Use join='delta'.")
    return joins[0]


def _deltas(engine: Dataflow, join: DeltaJoin) -> Iterator[Delta]:
    """Yield the changes of each input in this epoch, taken from the trace."""
    strings = join.dictionary.strings
    for below in _inputs(join):
        sent = [e.payload for e in engine.trace.named("message") if e.edge == (below.name, join.name)]
        yield concat([c.words(strings) for c in sent], below.width)


def _inputs(join: DeltaJoin) -> list[Any]:
    return join.inputs[: len(join.paths)]


def _relations(join: DeltaJoin) -> list[str]:
    return [i.name.split("[")[0] for i in _inputs(join)]


def _held(engine: Dataflow, name: str) -> StatePart:
    found = next((h for h in engine.state_parts() if h.operator == name), None)
    if found is None:
        raise ViewError(
            f"there is no state named {name}. Use one of {', '.join(h.operator for h in engine.state_parts())}."
        )
    return found


__all__ = ["Entry", "batches", "entries", "paths"]
