"""Reads the operators, edges and pieces of state of an engine.

A `Structure` changes only when a view is installed or dropped. A `Snapshot` is one piece of
state at one moment. It contains immutable batches, so keeping it costs only references.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ..dataflow.dataflow import Dataflow
from ..dataflow.labels import label
from ..dataflow.operators import Arrange, DeltaJoin, JoinCore, ReduceCore
from ..engine.engine import Engine
from ..engine.state_tables import DURABLE
from ..partial import describe
from ..partial.join import JoinNode
from ..partial.nodes import ReaderNode
from ..partial.partial import Partial
from ..partial.reduce import ReduceNode
from ..plan.nodes import Col, Map, Node, Reduce, Schema, Type
from ..storage.arrangement import Arrangement
from ..storage.batch import Batch, Layout, count_rows
from ..storage.encoding import Dictionary, Words


@dataclass(frozen=True, eq=False)
class Piece:
    """A piece of state: an arrangement, its name in ``engine.state()``, and the operator that writes it.

    ``kind`` and ``bill`` are its kind and its columns of the bill in ``engine.state()``. ``relation`` is the name
    of the relation of a base table.
    """

    name: str
    owner: str
    arrangement: Arrangement
    columns: tuple[str, ...]
    kind: str
    bill: tuple[str, ...] = ()
    relation: str = ""
    hidden: bool = False
    """True for the output of an aggregation that a view reads directly. It is listed for both operators."""

    @property
    def base(self) -> bool:
        """Whether this is a base table."""
        return DURABLE in self.bill


@dataclass(frozen=True, eq=False)
class ReduceTables:
    """Describes how the tables of an aggregation are shown.

    ``keys`` and ``results`` are column names. ``bags`` lists, for each column that MAX or MIN is applied to,
    (column name, piece with its values). ``output`` is the piece that stores the results.
    """

    keys: tuple[str, ...]
    results: tuple[str, ...]
    bags: tuple[tuple[str, str], ...]
    output: str
    counts: str
    """For DISTINCT, the piece that stores the number of copies of each row, otherwise ''."""


@dataclass(frozen=True, eq=False)
class Structure:
    """The graph of an engine as in `plan.graph`, with additional facts that a recording needs."""

    operators: dict[str, dict[str, Any]]
    edges: list[tuple[str, str, str]]
    pieces: dict[str, Piece]
    schemas: dict[str, Schema]
    """The schema of each operator's output, by operator."""
    unique: dict[str, tuple[int, ...]]
    """The positions of the unique key in an operator's output, for aggregations and for views that have such a key."""
    projections: frozenset[str]
    """The names of operators that only pick columns."""
    arranged_as: dict[str, str]
    """The arrangement operators that store the rows of sources, by the name of the source."""
    change_inputs: dict[str, frozenset[str]]
    """The inputs whose changes an operator takes, for operators that also read arrangements."""
    reduces: dict[str, ReduceTables]
    indexes: dict[int, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    """Further indexes of base tables (partial state), by the id of the index: (base table's piece, key columns).

    They are pieces, too, but they are not shown: a read of an index is shown at its table."""
    arrangements: list[Arrangement] = field(default_factory=list)
    view_columns: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """The positions of a view's columns in the table that it is read from, by view."""
    join_sides: dict[str, str] = field(default_factory=dict)
    """The name of the input that a piece of a join's state stores, by piece."""

    def owner(self, arrangement: Arrangement) -> Piece | None:
        """Return the piece that is stored in an arrangement, or None if there is no such piece."""
        found = [p for p in self.pieces.values() if p.arrangement is arrangement]
        return next((p for p in found if p.hidden), found[0] if found else None)


def structure(engine: Engine) -> Structure:
    """Return the current structure of an engine."""
    operators, links = engine.graph()
    rows: dict[str, Any] = {r["name"]: r for r in operators.to_dict("records")}
    edges = [(r["source"], r["target"], r["kind"]) for r in links.to_dict("records")]
    owners = {t: name for name, r in rows.items() for t in r["tables"]}
    pieces = {
        h.operator: Piece(h.operator, owners.get(h.operator, ""), h.arrangement, h.schema, h.kind, h.bill, h.relation)
        for h in engine.state_parts()
    }
    views = engine.views.values()
    schemas: dict[str, Schema] = {v.name: v.schema for v in views}
    unique = {v.name: v.key for v in views if v.unique}
    out = Structure(rows, edges, pieces, schemas, unique, frozenset(), {}, {}, {})
    if isinstance(engine, Dataflow):
        return _dataflow(engine, out)
    assert isinstance(engine, Partial)
    return _partial(engine, out)


def _dataflow(engine: Dataflow, s: Structure) -> Structure:
    plain = set()
    for o in engine.operators:
        s.schemas[o.name] = o.node.schema
        if _picks(o.node) and not isinstance(o, Arrange):
            plain.add(o.name)
        if isinstance(o, Arrange) and o.base and not s.operators[o.inputs[0].name]["tables"]:
            s.arranged_as[o.inputs[0].name] = o.name
        taken = len(o.node.inputs) if isinstance(o, JoinCore | ReduceCore) else None
        if isinstance(o, DeltaJoin):
            taken = len(o.paths)
        if taken is not None:
            s.change_inputs[o.name] = frozenset(i.name for i in o.inputs[:taken])
        if isinstance(o, JoinCore | DeltaJoin):
            for number, own in o.owned:
                s.join_sides[own.name] = _label(engine, o.inputs[number].node)
        if isinstance(o, ReduceCore):
            assert isinstance(o.node, Reduce)
            s.unique[o.name] = tuple(range(len(o.node.keys)))
            output = o.groups.output
            if all(p.arrangement is not output or p.owner != o.name for p in s.pieces.values()):
                names = tuple(c.name for c in o.node.schema)
                s.pieces[output.name] = Piece(output.name, o.name, output, names, "aggregate", hidden=True)
            bags = [(o.node.input.schema[c].name, a.name) for c, a in o.multisets.items()]
            held = {id(p.arrangement): n for n, p in s.pieces.items() if p.owner == o.name}
            counts = "" if o.groups.accumulators is None else o.groups.accumulators.name
            s.reduces[o.name] = _shape(o.node, tuple(bags), held[id(output)], counts)
    s.view_columns.update((name, reader.columns) for name, reader in engine.readers.items())
    every = [p.arrangement for p in s.pieces.values()]
    return _with(s, frozenset(plain), every)


def _partial(engine: Partial, s: Structure) -> Structure:
    plain = set()
    for node in engine.nodes.values():
        if isinstance(node, ReaderNode):
            continue
        s.schemas[node.name] = node.plan.schema
        if _picks(node.plan):
            plain.add(node.name)
        if isinstance(node, JoinNode):
            for held, below in zip(node.cached, node.inputs, strict=True):
                for part in held[:2] if held is not None else ():
                    s.join_sides[part.name] = _label(engine, below.source.plan)
        if isinstance(node, ReduceNode):
            assert isinstance(node.plan, Reduce)
            s.unique[node.name] = tuple(range(len(node.plan.keys)))
            counts = "" if node.groups.accumulators is None else node.groups.accumulators.name
            s.reduces[node.name] = _shape(node.plan, (), node.name, counts)
    tables = {p.relation: p for p in s.pieces.values() if p.base}
    for name, piece in s.pieces.items():
        if piece.kind == "index":
            s.pieces[name] = replace(piece, owner=tables[piece.relation].owner)
            s.indexes[id(piece.arrangement)] = (tables[piece.relation].name, piece.arrangement.layout.key)
    return _with(s, frozenset(plain), [p.arrangement for p in s.pieces.values()])


def _with(s: Structure, plain: frozenset[str], arrangements: list[Arrangement]) -> Structure:
    return replace(s, projections=plain, arrangements=arrangements)


def _shape(node: Reduce, bags: tuple[tuple[str, str], ...], output: str, counts: str) -> ReduceTables:
    names = tuple(c.name for c in node.schema)
    k = len(node.keys)
    return ReduceTables(names[:k], names[k:], bags, output, "" if node.aggs else counts)


def _picks(node: Node) -> bool:
    return isinstance(node, Map) and all(isinstance(e, Col) for e in node.exprs)


def _label(engine: Engine, node: Node) -> str:
    """Return the name of a join's input: the view that it computes, or otherwise its label in ``engine.state()``."""
    named = {v.plan: v.name for v in engine.views.values()}
    while node not in named and _picks(node):
        node = node.inputs[0]
    return named.get(node) or label(node)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A piece of state at one moment.

    ``runs`` are its batches, and ``handles`` are its trace handles as
    (reader, epoch). ``filled`` contains its filled keys, or is None if its keys cannot be holes.
    """

    piece: Piece
    runs: tuple[Batch, ...]
    upper: int
    since: int
    strings: Dictionary
    bytes: int
    handles: tuple[tuple[str, int], ...] = ()
    filled: Words | None = None
    filled_types: tuple[Type, ...] = ()

    @cached_property
    def rows(self) -> int:
        """The number of rows, as in ``engine.state()``."""
        return count_rows(self.runs, self.layout, self.strings)

    @property
    def layout(self) -> Layout:
        """The layout of the piece's rows."""
        return self.piece.arrangement.layout

    def then(self, batch: Batch) -> Snapshot:
        """Return a copy of this snapshot with one more batch, which is not sealed yet."""
        return replace(
            self,
            runs=(*self.runs, batch),
            upper=batch.lower + 1,
            bytes=self.bytes + batch.nbytes,
        )


def snapshots(engine: Engine, s: Structure, held: Mapping[int, str]) -> dict[str, Snapshot]:
    """Return a snapshot of every piece of state. ``held`` maps the id of a trace handle to the name of its reader."""
    filled, strings = filled_keys(engine), engine.dictionary.strings
    rows = {h.operator: h for h in engine.state_parts()}
    out = {}
    for name, piece in s.pieces.items():
        a = piece.arrangement
        extra = rows[name].extra if name in rows else 0
        keys, types = filled.get(name, (None, ()))
        mine = tuple((held[id(h)], h.time) for h in a.handles if id(h) in held)
        out[name] = Snapshot(piece, tuple(a.runs), a.upper, a.since, strings, a.nbytes + extra, mine, keys, types)
    return out


def filled_keys(engine: Engine) -> dict[str, tuple[Words, tuple[Type, ...]]]:
    """Return the filled keys of each partial table, and the types of the key columns, by table name."""
    out: dict[str, tuple[Words, tuple[Type, ...]]] = {}
    if isinstance(engine, Partial):
        for node in engine.nodes.values():
            for name, part in zip(describe.part_names(node), node.parts(), strict=True):
                if part[3] is not None:
                    out[name] = (part[3].keys, part[3].types)
    return out
