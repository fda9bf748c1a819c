"""Shows the operators of an engine with their state, from the sources on the left to the views on the right.

The input is what ``engine.graph()`` and ``engine.state`` return, and the picture is a recording of one step, which the
stepper's script draws. Operators that store rows have filled panels. A plain line carries changes, a thick one marks a
read through a trace handle (shared state), and a dashed line carries upqueries (partial state).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..replay.data import VERSION
from ..replay.texts import BAG, LISTED, counted, few, shown
from .outline import Described, OutlineOperator, outline
from .page.output import PageOutput
from .page.still import still

if TYPE_CHECKING:
    from .page.widget import StepperWidget

State = Callable[..., pd.DataFrame]
"""The method ``engine.state``. Without arguments, it returns a table of all state; with a name, it returns rows."""
Carried = Mapping[tuple[str, str], int]
Data = dict[str, Any]
READ_AT_MOST = 20_000
"""Tables with more rows are counted but not read, because a picture shows at most eight rows."""
BILL = {"durable": "durable inputs", "working": "working state", "cached": "cached answers"}

_INSIDE = {"accumulators": "counts and sums", "limbs": "exact sums, in parts"}
"""Readable captions for the parts of an aggregation's state, by their names in ``state()``."""


def graph(
    described: Described,
    state: State,
    *,
    title: str = "",
    filled: Callable[[str], Any] | None = None,
    carried: Carried | None = None,
) -> GraphPicture:
    """Return a picture of the operators with their state tables. Each state table is read once.

    ``described`` is the result of ``engine.graph()``, and ``state`` is the method ``engine.state``. For partial state,
    ``filled`` is the method ``engine.filled``: the picture lists filled keys that have no rows, and says that all other
    keys are holes. ``carried`` is ``engine.trace.rows_by_edge()`` or a part of it: row counts by (source, target).
    """
    operators, edges = outline(described)
    held = state()
    sizes = dict(zip(held["operator"], held["rows"], strict=True))
    names = [name for o in operators for name in o.tables if name in sizes]
    read = {name: state(name) for name in names if sizes[name] <= READ_AT_MOST}
    cached = set(held.loc[held["bill"] == "cached", "operator"])
    keys = {} if filled is None else {name: _filled(filled, name) for name in read if name in cached}
    states = {o.name: _state(o, held, read, {t: k for t, k in keys.items() if k is not None}) for o in operators}
    totals = {column: _amount(held, column) for column in BILL}
    step = {"caption": "", "operator": "", "epoch": 0, "totals": totals, "states": states}
    return GraphPicture(
        {
            "version": VERSION,
            "title": title,
            "at": 0,
            "messages": [],
            "moves": [],
            "steps": [step],
            "operators": [
                {"name": o.name, "kind": o.kind, "title": o.title, "detail": o.detail, "holds": bool(o.tables)}
                for o in operators
            ],
            "edges": [
                {"source": e.source, "target": e.target, "kind": e.kind}
                | ({"rows": carried[e.trace_edge]} if carried and e.trace_edge in carried else {})
                for e in edges
            ],
        }
    )


class GraphPicture(PageOutput):
    """A picture of an engine's operators and their state."""

    def __init__(self, recording: Data) -> None:
        self._recording = recording

    def data(self) -> Data:
        """Return the recording of one step that the page's script draws."""
        return {"kind": "graph", **self._recording}

    def html(self) -> str:
        """Return the tables as HTML, which needs no script."""
        return still(self._recording)

    def widget(self) -> StepperWidget:
        """Return a widget for JupyterLab and VS Code."""
        from .page.widget import StepperWidget

        return StepperWidget(self.data(), lambda edit: {"error": "A picture has no messages to edit."})

    def __repr__(self) -> str:
        """The picture as text, with one line per operator: its title, its row count and its targets."""
        recording = self._recording
        names = {o["name"]: " ".join(filter(None, [o["title"], o["detail"]])) for o in recording["operators"]}
        out = [recording["title"] or "operators and their state"]
        for o in recording["operators"]:
            edges = [e for e in recording["edges"] if e["source"] == o["name"] and e["kind"] != "upquery"]
            rows = counted(recording["steps"][0]["states"][o["name"]]["rows"], "row") if o["holds"] else "no state"
            to = ", ".join(names[e["target"]] for e in edges)
            out.append(f"  {names[o['name']]}: {rows}" + (f" -> {to}" if to else ""))
        return "\n".join(out)


def _amount(held: pd.DataFrame, column: str) -> dict[str, int]:
    mine = held[held["bill"].str.contains(column)]
    rows = int(mine["rows"].sum())
    return {"rows": rows, "before": rows, "bytes": int(mine["bytes"].sum())}


def _filled(filled: Callable[[str], Any], name: str) -> list[tuple[Any, ...]] | None:
    """Return the filled keys of a table, or None for a part of a table, which does not have its own keys."""
    try:
        keys = filled(name)
    except ValueError:
        return None
    return [k if isinstance(k, tuple) else (k,) for k in keys]


def _state(o: OutlineOperator, held: pd.DataFrame, read: Mapping[str, pd.DataFrame], filled: Mapping[str, Any]) -> Data:
    rows = int(held.loc[held["operator"].isin(list(o.tables)), "rows"].sum())
    return {"rows": rows, "tables": [_table(name, o, held, read.get(name), filled) for name in o.tables], "waits": []}


def _table(
    name: str, o: OutlineOperator, held: pd.DataFrame, frame: pd.DataFrame | None, filled: Mapping[str, Any]
) -> Data:
    entry = held[held["operator"] == name].iloc[0]
    part = re.sub(r"\d+$", "", name.rsplit(".", 1)[-1])
    caption = _caption(part, str(entry["relation"]), o) if len(o.tables) > 1 else ""
    out: Data = {
        "form": "rows",
        "caption": caption,
        "columns": [],
        "rows": [],
        "listed": 0,
        "total": int(entry["rows"]),
    }
    if frame is None:
        return out
    key = tuple(map(str, entry["key"]))
    columns = [str(c) for c in frame.columns if c != "diff"]
    lines = [([*map(shown, row[: len(columns)])], int(row[len(columns)])) for row in _lines(frame)]
    multiset = o.kind == "reduce" and name.startswith(f"{o.name}.") and part not in _INSIDE
    if multiset and key and len(columns) == len(key) + 1:
        out |= {"form": "groups", "columns": columns[:-1], "keys": len(key), "measures": columns[-1:]}
        out |= _groups(lines, len(key), "min(" in o.title.lower() and "max(" not in o.title.lower())
    else:
        rows = [{"values": values} | ({} if n == 1 else {"count": n}) for values, n in lines[:LISTED]]
        out |= {"columns": columns, "rows": rows, "listed": len(rows), "total": len(lines)}
    if name in filled:
        places = [columns.index(k) for k in key if k in columns]
        there = {tuple(values[at] for at in places) for values, _ in lines}
        empty = [k for each in filled[name] if (k := tuple(map(shown, each))) not in there]
        out |= {"key": list(key), "holes": [{"key": list(k), "filled": True} for k in empty[:LISTED]]}
    return out


def _lines(frame: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    """The rows of a state table with their multiplicity last. Columns are found by position: two can have one name."""
    at = [n for n, c in enumerate(frame.columns) if c != "diff"] + [
        n for n, c in enumerate(frame.columns) if c == "diff"
    ]
    yield from frame.iloc[:, at].itertuples(index=False, name=None)


def _groups(lines: Sequence[tuple[list[str], int]], keys: int, least: bool) -> Data:
    """The values that each group stores for MAX (the greatest are listed) or for MIN (the least)."""
    groups: dict[tuple[str, ...], list[Data]] = {}
    for values, n in lines:
        item = {"values": values[keys:]} | ({} if n == 1 else {"count": n})
        groups.setdefault(tuple(values[:keys]), []).append(item)
    made = []
    for key, items in few(list(groups.items()), lambda _: False):
        near = items[:BAG] if least else items[-BAG:]
        more = sum(each.get("count", 1) for each in items) - sum(each.get("count", 1) for each in near)
        made.append({"key": list(key), "bags": [{"items": near, "more": more}], "result": {"values": []}})
    return {"groups": made, "listed": len(made), "total": len(groups)}


def _caption(part: str, relation: str, o: OutlineOperator) -> str:
    if o.kind == "join":
        relation = re.sub(r"^π\((\w+)\)$", r"\1", relation)  # a table without its unused columns
        return f"{relation} side" if relation.isidentifier() else relation
    return _INSIDE.get(part, part)
