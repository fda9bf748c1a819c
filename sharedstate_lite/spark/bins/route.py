"""Where the operators of a dataflow live on Spark, and what travels between them.

A :class:`Route` is worked out from an in-process engine without rows (the blueprint):
the same views give the same one in every process, so only numbers travel. Operators
with state stand in stages 1, 2, ...; a stage is one stateful operator of Spark, and
each of its bins holds every operator of that stage for the keys of that bin. A row goes
to the next stage only where its key changes: what is grouped by the columns that it was
joined by, and a view over it, stay in the bin that they are in.

A :class:`Channel` is one kind of message: the change of one operator (or relation), for
some bin of one stage, chosen by a hash of some columns. All who are there and want it
by these columns take it from the same channel, the relation's base table among them.
Filters and maps between two operators with state run before the message is sent; on
what comes from a relation they run where it arrives, so that all can share the channel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...dataflow.dataflow import Dataflow
from ...dataflow.operators import Arrange, DeltaJoin, Input, JoinCore, Linear, Operator, ReduceCore, UnionAll
from ...engine.engine import Engine
from ...plan.nodes import Col, Join, Map, Reduce, Type

Chain = tuple[int, ...]
"""Numbers of stateless operators in the order in which they are applied."""

Port = tuple[int, int]
"""An operator's number and which of its inputs; for a view that keeps its own rows, -1 - its number, and 0."""


@dataclass
class Channel:
    """See the module. ``early`` runs at the sender, each taker's own chain at the receiver."""

    origin: int
    stage: int
    early: Chain
    columns: tuple[int, ...]
    types: tuple[Type, ...]
    takers: list[tuple[Chain, Port]] = field(default_factory=list)
    base: bool = False
    """Whether the relation's base table is kept where this channel ends."""


class StatefulStages(Protocol):
    """The state of an engine, stage by stage: what a `Route` and the placement of partial state have in common."""

    @property
    def engine(self) -> Engine: ...

    stages: int

    def parts(self, stage: int) -> dict[str, Any]:
        """The state of one stage, by the names that ``state()`` shows."""
        ...


class Route:
    """See the module; ``engine`` is the blueprint. Its relations' base tables must be there already."""

    def __init__(self, engine: Dataflow) -> None:
        self.engine = engine
        self.operators: list[Operator] = engine.operators
        self.number = {id(o): n for n, o in enumerate(self.operators)}
        self.views = list(engine.readers)
        self.channels: list[Channel] = []
        self.local: dict[int, list[tuple[Chain, Port]]] = {}
        self.stage_of: dict[int, int] = {}
        self.exits: dict[int, list[tuple[Chain, int]]] = {}
        """Operator -> (chain, view) for views whose rows are an operator's output."""
        self.reader_stage: dict[int, int] = {}
        ports = {n: list(self._ports(o)) for n, o in enumerate(self.operators)}
        self._place(ports)
        for n, wanted in ports.items():
            for port, below, columns in wanted:
                for origin, chain in self._paths(below, columns):
                    self._connect(origin, chain, columns, (n, port), self.stage_of[n])
        for v, name in enumerate(self.views):
            self._reader(v, name)
        for relation in engine.bases:
            self._base(relation)
        self.stages = max([*self.stage_of.values(), *self.reader_stage.values(), *(c.stage for c in self.channels)])

    # --- what an operator wants -----------------------------------------------

    def _ports(self, operator: Operator) -> Iterator[tuple[int, Operator, tuple[int, ...]]]:
        """The changes an operator takes: which of its inputs, from whom, and the columns that choose the bin."""
        node = operator.node
        if isinstance(operator, JoinCore) and isinstance(node, Join):
            yield 0, operator.inputs[0], node.left_keys
            yield 1, operator.inputs[1], node.right_keys
        elif isinstance(operator, DeltaJoin):
            for at, arrangement in operator.owned:
                yield at, operator.inputs[at], arrangement.layout.key
        elif isinstance(operator, ReduceCore) and isinstance(node, Reduce):
            yield 0, operator.inputs[0], node.keys
        elif isinstance(operator, Arrange):
            yield 0, operator.inputs[0], operator.arrangement.layout.key

    def _paths(self, operator: Operator, columns: tuple[int, ...]) -> list[tuple[int, Chain]]:
        """What feeds an operator's output: operators with state, and relations, each with the chain in between.

        An arrangement that is by other columns than these only passes the change on: then
        what it is an arrangement of feeds.
        """
        out: list[tuple[int, Chain]] = []
        ahead: list[tuple[Operator, Chain]] = [(operator, ())]
        while ahead:
            each, chain = ahead.pop()
            number = self.number[id(each)]
            if isinstance(each, Linear):
                ahead.append((each.inputs[0], (number, *chain)))
            elif isinstance(each, UnionAll):
                ahead += [(below, chain) for below in reversed(each.inputs)]
            elif isinstance(each, Arrange) and not self._stays(number, chain, columns):
                ahead.append((each.inputs[0], chain))
            else:
                out.append((number, chain))
        return out

    def _lift(self, chain: Chain, columns: tuple[int, ...]) -> tuple[int, ...] | None:
        """Which columns of a chain's input its output's ``columns`` are; None where one is computed."""
        for at in reversed(chain):
            node = self.operators[at].node
            if isinstance(node, Map):
                exprs = [node.exprs[i] for i in columns]
                if not all(isinstance(e, Col) for e in exprs):
                    return None
                columns = tuple(e.index for e in exprs if isinstance(e, Col))
        return columns

    def _stays(self, origin: int, chain: Chain, columns: tuple[int, ...]) -> bool:
        """Whether rows of ``origin`` are in the bin of ``columns`` already."""
        operator = self.operators[origin]
        lifted = self._lift(chain, columns)
        return lifted is not None and any(sorted(lifted) == sorted(k) for k in _kept(operator))

    # --- where it lives -------------------------------------------------------

    def _place(self, ports: dict[int, list[tuple[int, Operator, tuple[int, ...]]]]) -> None:
        """The earliest stage of each operator: after its inputs' unless rows stay; with the arrangements it reads."""
        self.stage_of.update({n: 1 for n, wanted in ports.items() if wanted})
        together = [{n, *self._reads(n)} for n in self.stage_of]
        moved = True
        while moved:
            earlier = dict(self.stage_of)
            for n in self.stage_of:
                for _, below, columns in ports[n]:
                    for origin, chain in self._paths(below, columns):
                        self.stage_of[n] = max(self.stage_of[n], self._after(origin, chain, columns))
            for group in together:
                last = max(self.stage_of[n] for n in group)
                self.stage_of.update(dict.fromkeys(group, last))
            moved = earlier != self.stage_of
            if max(self.stage_of.values(), default=0) > len(self.operators):
                raise Unplaceable(self._suspects())

    def _suspects(self) -> list[int]:
        """Operators that look things up, first those that stand above another one that reads the same arrangement."""
        read = {n: set(found) for n in self.stage_of if (found := self._reads(n))}

        def above(n: int) -> bool:
            below, ahead = set[int](), [self.operators[n]]
            while ahead:
                more = {self.number[id(o)] for o in ahead.pop().inputs} - below
                below |= more
                ahead += [self.operators[m] for m in more]
            return any(read[m] & read[n] for m in below & read.keys())

        return sorted(read, key=lambda n: (above(n), self.stage_of[n], n), reverse=True)

    def _reads(self, n: int) -> list[int]:
        """The operators that write the arrangements which an operator looks things up in, other than itself."""
        operator = self.operators[n]
        read: list[Any] = []
        if isinstance(operator, JoinCore):
            read = [side.arrangement for side in operator.sides]
        elif isinstance(operator, ReduceCore):
            read = [getattr(s, "lookup", s).arrangement for s in operator.sources.values()]
        return [m for m, o in enumerate(self.operators) if isinstance(o, Arrange) and o.arrangement in read]

    def _after(self, origin: int, chain: Chain, columns: tuple[int, ...]) -> int:
        if isinstance(self.operators[origin], Input):
            return 1
        return self.stage_of[origin] + (not self._stays(origin, chain, columns))

    def _connect(self, origin: int, chain: Chain, columns: tuple[int, ...], port: Port, stage: int) -> None:
        lifted = self._lift(chain, columns)
        if self.stage_of.get(origin) == stage and self._stays(origin, chain, columns):
            self.local.setdefault(origin, []).append((chain, port))
        elif isinstance(self.operators[origin], Input) and lifted is not None:
            self._channel(origin, stage, (), lifted).takers.append((chain, port))
        else:
            self._channel(origin, stage, chain, columns).takers.append(((), port))

    def _channel(self, origin: int, stage: int, early: Chain, columns: tuple[int, ...]) -> Channel:
        for channel in self.channels:
            same = (channel.origin, channel.stage, channel.early) == (origin, stage, early)
            if same and sorted(channel.columns) == sorted(columns):
                return channel
        schema = self.operators[early[-1] if early else origin].node.schema
        self.channels.append(Channel(origin, stage, early, columns, tuple(c.type for c in schema)))
        return self.channels[-1]

    def _reader(self, number: int, name: str) -> None:
        reader = self.engine.readers[name]
        key = self.engine.views[name].key
        paths = self._paths(reader.root, key)
        stateful = {o for o, _ in paths if not isinstance(self.operators[o], Input)}
        port = (-1 - number, 0)
        if len(stateful) == 1 and len(paths) == 1:
            # Rows are told, and kept, in the bin where they come about.
            origin, chain = paths[0]
            self.reader_stage[number] = self.stage_of[origin]
            if reader.own:
                self.local.setdefault(origin, []).append((chain, port))
            else:
                self.exits.setdefault(origin, []).append((chain, number))
            return
        self.reader_stage[number] = stage = max(self._after(o, c, key) for o, c in paths)
        for origin, chain in paths:
            self._connect(origin, chain, key, port, stage)

    def _base(self, relation: str) -> None:
        """A relation's base table is kept where its rows arrive anyway; if nobody wants them, by all columns."""
        inputs = [n for n, o in enumerate(self.operators) if isinstance(o, Input) and o.name == relation]
        raw = [c for c in self.channels if c.origin in inputs and not c.early]
        table = self.engine.bases[relation]
        arranged = {n for n, o in enumerate(self.operators) if isinstance(o, Arrange) and o.arrangement is table}
        if arranged:
            raw = [c for c in raw if arranged & {n for _, (n, _) in c.takers}]
        if raw:
            min(raw, key=lambda c: c.stage).base = True
            return
        schema = self.engine.catalog.schema(relation)
        origin = inputs[0] if inputs else -1 - list(self.engine.bases).index(relation)
        types = tuple(c.type for c in schema)
        self.channels.append(Channel(origin, 1, (), tuple(range(len(schema))), types, base=True))

    # --- for those who use it -------------------------------------------------

    def relation(self, channel: Channel) -> str | None:
        """The relation that a channel brings, None for an operator's change."""
        if channel.origin < 0:
            return list(self.engine.bases)[-1 - channel.origin]
        operator = self.operators[channel.origin]
        return operator.name if isinstance(operator, Input) else None

    def at(self, stage: int) -> list[int]:
        """The operators with state of one stage, in the order in which they run."""
        return [n for n, s in sorted(self.stage_of.items()) if s == stage]

    def parts(self, stage: int) -> dict[str, Any]:
        """The state of one stage: what ``state()`` calls it, and how it is told."""
        there = {id(a) for n in self.at(stage) for a, _ in self.operators[n].held()}
        there |= {
            id(self.engine.bases[r]) for c in self.channels if c.base and c.stage == stage and (r := self.relation(c))
        }
        for number, name in enumerate(self.views):
            reader = self.engine.readers[name]
            if reader.own and self.reader_stage[number] == stage:
                there.add(id(reader.arrangement))
        return {h.operator: h for h in self.engine.state_parts() if id(h.arrangement) in there}

    def globals(self) -> list[int]:
        """Aggregates without GROUP BY: they have their one row before anything has come."""
        return [n for n, o in enumerate(self.operators) if isinstance(o, ReduceCore) and not _keys(o)]

    def ticked(self) -> list[int]:
        """The stages that have such an aggregate."""
        return sorted({self.stage_of[n] for n in self.globals()})


class Unplaceable(Exception):
    """An arrangement would have to be in two stages, unless one of ``operators`` reads a copy; the likeliest first."""

    def __init__(self, operators: list[int]) -> None:
        super().__init__(operators)
        self.operators = operators


def _keys(operator: Operator) -> Sequence[int]:
    assert isinstance(operator.node, Reduce)
    return operator.node.keys


def _kept(operator: Operator) -> list[tuple[int, ...]]:
    """Columns of an operator's output whose hash is that of its bin; any one of the tuples."""
    node = operator.node
    if isinstance(operator, ReduceCore) and isinstance(node, Reduce):
        return [tuple(range(len(node.keys)))]
    if isinstance(operator, JoinCore) and isinstance(node, Join):
        left = len(node.left.schema)
        # What a LEFT JOIN pads has no right key.
        return [node.left_keys] + ([] if node.outer else [tuple(left + i for i in node.right_keys)])
    if isinstance(operator, DeltaJoin):
        starts = [sum(i.width for i in operator.inputs[:at]) for at, _ in operator.owned]
        return [tuple(s + i for i in a.layout.key) for s, (_, a) in zip(starts, operator.owned, strict=True)]
    if isinstance(operator, Arrange):
        return [operator.arrangement.layout.key]
    return []
