"""Shows the inside of shared state: batches, times of rows, and a delta join that reads at the wrong times.

    batches       lists the batches of every arrangement, with its since and upper
    history       lists the rows of one arrangement as stored, with their times and diffs
    simultaneous  runs one epoch through a delta join, and counts its results under three read conventions

Rules 11 to 14 cover this behavior. `batches` and `history` only read. `simultaneous` steps the engine once, correctly,
and also computes the counts under each convention with the engine's own kernel (:func:`~..kernels.join.delta_path`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from ..changelog.changes import frame
from ..dataflow.dataflow import Dataflow
from ..dataflow.operators import DeltaJoin, Lookup
from ..engine.state_tables import StatePart
from ..errors import ViewError
from ..kernels.join import Matches, delta_path
from ..plan.nodes import Column
from ..storage.batch import Delta, concat
from ..storage.encoding import Words


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


def history(engine: Dataflow, name: str) -> pd.DataFrame:
    """Return the rows of one arrangement as stored, batch by batch.

    The columns are batch, the columns of the rows, time and diff. After compaction, ``time`` is ``≤ t``, where t is
    the latest epoch in which the change can have happened. Raises ViewError if no arrangement has this name.
    """
    held = _held(engine, name)
    arrangement, parts = held.arrangement, []
    schema = tuple(Column(n, t) for n, t in zip(held.schema, arrangement.layout.types, strict=True))
    for number, (span, run) in enumerate(zip(arrangement.batches, arrangement.runs, strict=False), 1):
        width = 1 + arrangement.layout.columns
        part = frame(schema, run.body[1:width], engine.dictionary.strings)
        part.insert(0, "batch", number)
        last = run.body[-1] if run.timed else np.full(len(run), span.upper - 1)
        told = arrangement.since if run.timed else span.upper - 1
        exact = not run.timed and span.upper - span.lower == 1
        part["time"] = [str(t) if exact or t > told else f"≤ {t}" for t in last.tolist()]
        part["diff"] = run.body[width].copy()
        part["order"] = last
        parts.append(part.sort_values([*held.schema, "order", "diff"]).drop(columns="order"))
    if parts:
        return pd.concat(parts, ignore_index=True)
    return pd.DataFrame(columns=["batch", *held.schema, "time", "diff"])


def simultaneous(engine: Dataflow, inputs: Any) -> pd.DataFrame:
    """Step one epoch through the engine's delta join, and count each path's results under three conventions.

    A path starts at one input and looks up rows in the others. A convention determines whether it reads another
    input with this epoch's changes (``<=``) or without them (``<``). Returns one row per convention. There is one
    column per input with the sum of the diffs that its path yields. ``sum`` is the total of these columns, and
    ``true`` is the actual growth of the join's contents. Raises ViewError unless the engine has exactly one delta join.
    """
    joins = [o for o in engine.operators if isinstance(o, DeltaJoin)]
    if len(joins) != 1:
        raise ViewError(f"simultaneous() needs one delta join, but this engine has {len(joins)}. Use join='delta'.")
    join, before = joins[0], engine.epoch
    size = _size(join)
    kept, engine.trace.keep_rows = engine.trace.keep_rows, True
    with engine.handle():
        engine.trace.clear()
        try:
            engine.step(inputs)
        finally:
            engine.trace.keep_rows = kept
        deltas = list(_deltas(engine, join))
        lines = []
        for says, (later, earlier) in CONVENTIONS.items():
            counts = [_paths(join, n, delta, later, earlier, before) for n, delta in enumerate(deltas)]
            lines.append([says, *counts, sum(counts), _size(join) - size])
    return pd.DataFrame(lines, columns=["reads the others", *(_relation(i.name) for i in _inputs(join)), "sum", "true"])


CONVENTIONS = {
    "later inputs <=, earlier ones <": (True, False),
    "all <=": (True, True),
    "all <": (False, False),
}
"""For each convention, whether lookups include this epoch's changes: (in later inputs, in earlier inputs)."""


class _Pinned:
    """A side of a join that is always read at the epoch ``at``, regardless of the epoch that the path passes."""

    def __init__(self, side: Lookup, at: int | None) -> None:
        self.side, self.at, self.columns = side, at, side.columns

    def match(self, keys: Words, at: int | None) -> Matches:
        return self.side.match(keys, self.at)


def _paths(join: DeltaJoin, start: int, delta: Delta, later: bool, earlier: bool, before: int) -> int:
    path = []
    for step, side in join.paths[start]:
        sees = later if step.input > start else earlier
        path.append((step, _Pinned(side, None if sees else before)))
    return int(delta_path(delta, start, path, before, join.dictionary.strings).diffs.sum())


def _deltas(engine: Dataflow, join: DeltaJoin) -> Iterator[Delta]:
    """Yield the changes of each input in this epoch, taken from the trace."""
    strings = join.dictionary.strings
    for below in _inputs(join):
        sent = [e.payload for e in engine.trace.named("message") if e.edge == (below.name, join.name)]
        yield concat([c.words(strings) for c in sent], below.width)


def _inputs(join: DeltaJoin) -> list[Any]:
    return join.inputs[: len(join.paths)]


def _relation(name: str) -> str:
    return name.split("[")[0]


def _size(join: DeltaJoin) -> int:
    return int(np.sum(join.contents().diffs))


def _held(engine: Dataflow, name: str) -> StatePart:
    found = next((h for h in engine.state_parts() if h.operator == name), None)
    if found is None:
        raise ViewError(
            f"there is no state named {name}. Use one of {', '.join(h.operator for h in engine.state_parts())}."
        )
    return found


__all__ = ["CONVENTIONS", "batches", "history", "simultaneous"]
