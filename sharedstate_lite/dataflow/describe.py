"""Descriptions of a dataflow: the parts of its state for ``state()``, its operators and edges for ``graph()``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pandas as pd

from ..engine.state_tables import StatePart
from ..plan import graph
from ..plan.nodes import Reduce
from ..storage.arrangement import Arrangement
from .labels import label
from .operators import Arrange, Input, JoinOperator, Operator, Reader, ReduceCore


def operator_parts(
    operators: Sequence[Operator],
    readers: Mapping[str, Reader],
    listed: set[int],
    identity: Callable[[Operator, Arrangement], str],
) -> Iterator[StatePart]:
    """Yield the arrangements of operators as parts of the state, except those whose ids are in ``listed``.

    If a view is read from an arrangement, the part has the name of the view.
    """
    listed = set(listed)
    read = read_by(readers)
    for operator in operators:
        for arrangement, kind in operator.arrangements():
            if id(arrangement) in listed:
                continue
            listed.add(id(arrangement))
            view = read.get(id(arrangement))
            yield StatePart(
                view or arrangement.name,
                _relation_of(operator, arrangement),
                "reader" if view else kind,
                arrangement,
                _columns_of(operator, arrangement),
                identity=identity(operator, arrangement),
            )


def graph_frames(
    operators: Sequence[Operator], readers: Mapping[str, Reader], names: Mapping[int, str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the operators and the edges as two data frames (see :mod:`..plan.graph`).

    ``names`` maps the ids of arrangements to their names.
    """
    rest, read = dict(names), read_by(readers)
    rows: list[graph.Row] = []
    edges: list[tuple[str, str, str]] = []
    arranged = {id(o.arrangement) for o in operators if isinstance(o, Arrange)}
    for operator in operators:
        kind, title, detail = graph.describe(operator.node)
        written = [a for a, _ in operator.arrangements()]
        if isinstance(operator, Arrange):
            by = ", ".join(operator.node.schema[i].name for i in operator.arrangement.layout.key)
            kind, title, detail = "arrange", "ARRANGE", f"by {by}"
        elif isinstance(operator, Input):
            base = operator.base()
            written = [base] if base is not None and id(base) not in arranged else []
        tables = tuple(rest.pop(id(a)) for a in written if id(a) in rest and id(a) not in read)
        view = "" if isinstance(operator, Input) else min(operator.users, default="")
        rows.append((operator.name, kind, title, detail, tables, view))
        for below in operator.inputs:
            edges.append((below.name, operator.name, "read" if isinstance(below, Arrange) else "change"))
    for name, reader in readers.items():
        tables = (rest.pop(id(reader.arrangement)),) if id(reader.arrangement) in rest else ()
        rows.append((name, "view", name, "", tables, name))
        edges.append((reader.root.name, name, "change"))
    return graph.frames(rows, edges)


def read_by(readers: Mapping[str, Reader]) -> dict[int, str]:
    """Map the id of each arrangement from which views are read to the name of the first of these views."""
    return {id(r.arrangement): name for name, r in reversed(list(readers.items()))}


def _relation_of(operator: Operator, arrangement: Arrangement) -> str:
    """Return the label of the rows in an arrangement."""
    for number, own in operator.owned if isinstance(operator, JoinOperator) else []:
        if own is arrangement:
            return label(operator.inputs[number].node)
    return label(operator.node.inputs[0] if isinstance(operator, ReduceCore) else operator.node)


def _columns_of(operator: Operator, arrangement: Arrangement) -> tuple[str, ...]:
    """Return the column names of an arrangement.

    The arrangements of a reduce start with its group columns, and most of them have one more column for a value.
    """
    node = operator.node
    if isinstance(operator, ReduceCore) and arrangement is not operator.groups.output:
        assert isinstance(node, Reduce)
        names = [node.input.schema[i].name for i in node.keys]
        return tuple([*names, arrangement.name.rsplit(".", 1)[1]][: arrangement.layout.columns])
    for number, own in operator.owned if isinstance(operator, JoinOperator) else []:
        if own is arrangement:
            return tuple(c.name for c in operator.inputs[number].node.schema)
    return tuple(c.name for c in node.schema)
