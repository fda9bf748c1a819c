"""What an engine holds, as tables; and handles that hold it at a time.

A strategy tells its state as a list of :class:`StatePart`; what ``state()`` shows is made of
that here, so it reads the same for every strategy, and on Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from ..changelog.changes import frame, value_order
from ..errors import ViewError
from ..plan.nodes import Column, Schema
from ..storage.arrangement import Arrangement, TraceHandle
from ..storage.batch import merged
from ..storage.encoding import Strings


@dataclass(frozen=True)
class StatePart:
    """One piece of state: a row of ``state()``. ``schema`` names the columns of its rows."""

    operator: str
    relation: str
    kind: str
    arrangement: Arrangement
    schema: tuple[str, ...]
    base: bool = False
    extra: int = 0
    """Bytes that belong to it beside the arrangement's."""
    identity: str = ""
    """A name that does not depend on which views came and went; the operator's where empty."""

    @property
    def key(self) -> tuple[str, ...]:
        """Names of the columns it is looked up by."""
        return tuple(self.schema[i] for i in self.arrangement.layout.key)


def check_names(held: Sequence[StatePart], relations: Mapping[str, Schema]) -> None:
    """Raise ViewError where two pieces of state have one name, those included that ``relations`` without rows may yet
    have: a relation that no view uses has its base table from its first row on."""
    later = relations.keys() - {h.relation for h in held if h.base}
    seen = {f"{r}[{', '.join(c.name for c in relations[r])}]": f"base of {r}" for r in later}
    for h in held:
        for name in {h.operator, h.identity or h.operator}:
            if name in seen:
                raise ViewError(
                    f"{name} would name both the {seen[name]} and the {h.kind} of {h.relation}: state() and "
                    f"checkpoints tell state apart by name; call the view, or relation, of that name otherwise"
                )
            seen[name] = f"{h.kind} of {h.relation}"


def state_table(held: Iterable[StatePart], strings: Strings) -> pd.DataFrame:
    """One row a piece of state: operator, relation, key, rows, bytes, kind, base."""
    held = list(held)
    first = next((h for h in held if h.base), None)
    table = []
    for h in held:
        # The dictionary serves all state; its bytes are told once, with the first base table.
        size = h.arrangement.nbytes + h.extra + (strings.nbytes if h is first else 0)
        table.append([h.operator, h.relation, h.key, h.arrangement.rows, size, h.kind, h.base])
    out = pd.DataFrame(table, columns=["operator", "relation", "key", "rows", "bytes", "kind", "base"])
    return out.astype({"rows": "int64", "bytes": "int64", "base": "bool"})


def state_rows(operator: str, held: Iterable[StatePart], strings: Strings) -> pd.DataFrame:
    """The consolidated rows of one piece of state in order, then their diff (and further accumulators)."""
    held = list(held)
    found = next((h for h in held if h.operator == operator), None)
    if found is None:
        raise ViewError(f"no operator is called {operator}; state() lists: {', '.join(h.operator for h in held)}")
    layout = found.arrangement.layout
    body = merged(found.arrangement.runs, layout, strings)
    schema = tuple(Column(n, t) for n, t in zip(found.schema, layout.types, strict=True))
    body = body.take(value_order(schema, body[1 : 1 + layout.columns], strings), axis=1)
    out = frame(schema, body[1 : 1 + layout.columns], strings)
    for i in range(layout.width):
        name = "diff" if i == 0 else f"sum{i}"
        out.insert(len(out.columns), name, body[1 + layout.columns + i].copy(), allow_duplicates=True)
    return out


def state_html(title: str, table: pd.DataFrame) -> str:
    """A state table under a line with its totals."""
    own, base = table[~table.base], table[table.base]
    told = f"{int(own['rows'].sum())} rows, {int(own['bytes'].sum())} bytes beside {int(base['rows'].sum())} base rows"
    return f"<p>{title}, holds {told}</p>{table.to_html(index=False)}"


class Handles:
    """Handles on all arrangements of an engine at one time; a context manager."""

    def __init__(self, handles: list[TraceHandle], time: int) -> None:
        self._handles, self.time = handles, time

    def advance(self, time: int) -> None:
        """Move all of them to a later time, or none. Raises TimeError."""
        # An arrangement that nobody needs any more goes with its view, and its handle is closed then.
        live = [handle for handle in self._handles if handle.open] or self._handles
        for handle in live:
            handle.check(time)
        for handle in live:
            handle.advance(time)
        self.time = time

    def close(self) -> None:
        """Let go of all of them; a second call does nothing."""
        for handle in self._handles:
            handle.close()

    def __enter__(self) -> Handles:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
