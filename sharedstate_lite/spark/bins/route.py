"""The stage of each operator of a dataflow, and the messages between stages.

A `Route` is computed from an in-process engine without rows. Every process computes the same route from the same
views, so messages can refer to channels by number. Operators with state are assigned to stages 1, 2, and so on. A
*stage* is one stateful operator of Spark, and each of its bins runs all operators of that stage for the keys of the
bin. A row moves to the next stage only if its key changes. For example, GROUP BY on the join columns stays in the bin
of the join, and so does a view over it.

A *channel* carries one kind of message: the changes of one operator or relation, sent to one stage. A hash of some of
the columns selects the bin. All operators of the stage that need the changes partitioned by these columns share the
channel, and so does the relation's base table. Filters and projections between two operators with state run before the
message is sent. Filters and projections directly after a relation run at the receiver, so that all operators can share
the channel.

Source: the exchange channels of timely dataflow (Murray et al., Naiad, SOSP 2013); Spark's transformWithState.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...dataflow.dataflow import Dataflow
from ...dataflow.operators import Arrange, DeltaJoin, Input, JoinCore, Linear, Operator, ReduceCore, UnionAll
from ...dataflow.row_functions import apply
from ...engine.engine import Engine
from ...plan.lineage import input_columns
from ...plan.nodes import Join, Reduce, Type
from ...storage.batch import Delta, Layout
from ...storage.encoding import Dictionary
from ...storage.wire import pack, split
from ..rounds.message import BinMessage

Chain = tuple[int, ...]
"""The numbers of stateless operators, in the order in which they run."""

Port = tuple[int, int]
"""(operator, input), or (-1 - the view's number, 0) for a view that stores its own rows."""


@dataclass
class Channel:
    """One kind of message to a stage; see the module's docstring.

    ``origin`` is the number of the sending operator, or -1 - the number of a relation that no view uses. The chain
    ``early`` runs at the sender, and each taker's chain runs at the receiver. ``columns`` select the bin, and ``types``
    are the types of all columns.
    """

    origin: int
    stage: int
    early: Chain
    columns: tuple[int, ...]
    types: tuple[Type, ...]
    takers: list[tuple[Chain, Port]] = field(default_factory=list)
    base: bool = False
    """Whether this channel fills the base table of its relation."""


class StatefulStages(Protocol):
    """An engine's state by stage: the common interface of `Route` and the `Placement` of partial state."""

    @property
    def engine(self) -> Engine: ...

    stages: int
    scattered: set[str]
    """The views of which equal rows can be in several bins."""

    def parts(self, stage: int) -> dict[str, Any]:
        """Return the pieces of state of one stage, by the names that ``state()`` shows."""
        ...


class Route:
    """The stages, channels and local connections of a dataflow; see the module's docstring.

    ``engine`` does not contain rows, but it must have a base table for each of its relations.
    """

    def __init__(self, engine: Dataflow) -> None:
        self.engine = engine
        self.operators: list[Operator] = engine.operators
        self.number = {id(o): n for n, o in enumerate(self.operators)}
        self.views = list(engine.readers)
        self.channels: list[Channel] = []
        self.local: dict[int, list[tuple[Chain, Port]]] = {}
        self.stage_of: dict[int, int] = {}
        self.exits: dict[int, list[tuple[Chain, int]]] = {}
        """Operator -> (chain, view) for each view that reads the operator's output instead of storing its own rows."""
        self.reader_stage: dict[int, int] = {}
        self.scattered: set[str] = set()
        """The views of which equal rows can be in several bins."""
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

    # --- inputs ---------------------------------------------------------------

    def _ports(self, operator: Operator) -> Iterator[tuple[int, Operator, tuple[int, ...]]]:
        """Yield the inputs of an operator with state, as (input, operator below, columns that select the bin)."""
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
        """Return the operators with state, and the relations, that feed ``operator``, each with the chain between them.

        An arrangement whose rows are not in the bins that ``columns`` select is skipped, and its own input is used.
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
        """Return the input columns that the output ``columns`` of a chain copy, or None if one of them is computed."""
        lifted: tuple[int, ...] | None = columns
        for at in reversed(chain):
            lifted = None if lifted is None else input_columns(self.operators[at].node, lifted)
        return lifted

    def _stays(self, origin: int, chain: Chain, columns: tuple[int, ...]) -> bool:
        """Return whether the rows of ``origin`` are already in the bin that ``columns`` select."""
        operator = self.operators[origin]
        lifted = self._lift(chain, columns)
        return lifted is not None and any(sorted(lifted) == sorted(k) for k in _partitioned_by(operator))

    # --- stages ---------------------------------------------------------------

    def _place(self, ports: dict[int, list[tuple[int, Operator, tuple[int, ...]]]]) -> None:
        """Assign each operator to the earliest possible stage.

        An operator is in a later stage than its inputs, unless their rows stay in their bin. It is in the same stage as
        the arrangements that it reads. Raises Unplaceable if this is impossible.
        """
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
        """Return the operators that read arrangements, as candidates for a copy of an arrangement.

        Operators above another operator that reads the same arrangement come first.
        """
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
        """Return the operators that write the arrangements that operator ``n`` reads."""
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
            # The view stores its rows in the bin that computes them.
            origin, chain = paths[0]
            self.reader_stage[number] = self.stage_of[origin]
            if reader.own:
                self.local.setdefault(origin, []).append((chain, port))
                copied = {i for at in range(len(reader.columns)) for i in self._lift(chain, (at,)) or ()}
                if not any(copied.issuperset(k) for k in _partitioned_by(self.operators[origin])):
                    self.scattered.add(name)
            else:
                self.exits.setdefault(origin, []).append((chain, number))
            return
        self.reader_stage[number] = stage = max(self._after(o, c, key) for o, c in paths)
        for origin, chain in paths:
            self._connect(origin, chain, key, port, stage)

    def _base(self, relation: str) -> None:
        """Place a base table in a stage that receives the relation's rows anyway.

        If no stage does, a new channel to stage 1 partitions the rows by all columns.
        """
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

    # --- using it -------------------------------------------------------------

    def relation(self, channel: Channel) -> str | None:
        """Return the relation whose rows a channel carries, or None if it carries an operator's changes."""
        if channel.origin < 0:
            return list(self.engine.bases)[-1 - channel.origin]
        operator = self.operators[channel.origin]
        return operator.name if isinstance(operator, Input) else None

    def apply(self, chain: Chain, delta: Delta, strings: Dictionary) -> Delta:
        """Run a chain on ``delta`` and return its output."""
        for at in chain:
            delta = apply(self.operators[at].node, delta, strings)
        return delta

    def relation_messages(
        self, relation: str, delta: Delta, bins: int, strings: Dictionary, net: bool = False
    ) -> list[BinMessage]:
        """Return a relation's change as messages to the bins. If ``net``, first add up the diffs of equal rows."""
        wanted = [(n, c) for n, c in enumerate(self.channels, 1) if self.relation(c) == relation]
        return self._messages(wanted, delta, bins, strings, net)

    def operator_messages(self, n: int, delta: Delta, bins: int, strings: Dictionary) -> list[BinMessage]:
        """Return an operator's change as messages to the bins of later stages."""
        wanted = [(number, c) for number, c in enumerate(self.channels, 1) if c.origin == n]
        return self._messages(wanted, delta, bins, strings, True)

    def _messages(
        self, channels: list[tuple[int, Channel]], delta: Delta, bins: int, strings: Dictionary, net: bool
    ) -> list[BinMessage]:
        out: list[BinMessage] = []
        for number, channel in channels:
            sent = self.apply(channel.early, delta, strings)
            if net and len(sent.diffs) > 1:
                layout = Layout(channel.types, tuple(range(len(channel.types))))
                sent = layout.delta(layout.body(sent.rows, sent.diffs, strings))
            for where, part in split(sent, channel.columns, channel.types, bins, strings):
                out.append(BinMessage(channel.stage, where, number, "", pack(part, channel.types, strings)))
        return out

    def at(self, stage: int) -> list[int]:
        """Return the numbers of a stage's operators with state, in the order in which they run."""
        return [n for n, s in sorted(self.stage_of.items()) if s == stage]

    def parts(self, stage: int) -> dict[str, Any]:
        """Return the pieces of state of one stage, by the names that ``state()`` shows."""
        there = {id(a) for n in self.at(stage) for a, _ in self.operators[n].arrangements()}
        there |= {
            id(self.engine.bases[r]) for c in self.channels if c.base and c.stage == stage and (r := self.relation(c))
        }
        for number, name in enumerate(self.views):
            reader = self.engine.readers[name]
            if reader.own and self.reader_stage[number] == stage:
                there.add(id(reader.arrangement))
        return {h.operator: h for h in self.engine.state_parts() if id(h.arrangement) in there}

    def globals(self) -> list[int]:
        """Return the numbers of the aggregates without GROUP BY, which have one row before any input arrives."""
        return [n for n, o in enumerate(self.operators) if isinstance(o, ReduceCore) and not _keys(o)]

    def global_stages(self) -> list[int]:
        """Return the stages that contain an aggregate without GROUP BY."""
        return sorted({self.stage_of[n] for n in self.globals()})


class Unplaceable(Exception):
    """Raised if two stages need the same arrangement, so that an operator must read its own copy of it.

    ``operators`` are the candidates, starting with the best one.
    """

    def __init__(self, operators: list[int]) -> None:
        super().__init__(operators)
        self.operators = operators


def _keys(operator: Operator) -> Sequence[int]:
    assert isinstance(operator.node, Reduce)
    return operator.node.keys


def _partitioned_by(operator: Operator) -> list[tuple[int, ...]]:
    """Return tuples of output columns, each of which determines the bin in which a row was computed."""
    node = operator.node
    if isinstance(operator, ReduceCore) and isinstance(node, Reduce):
        return [tuple(range(len(node.keys)))]
    if isinstance(operator, JoinCore) and isinstance(node, Join):
        left = len(node.left.schema)
        # A row that a LEFT JOIN pads with NULL has no right key.
        return [node.left_keys] + ([] if node.outer else [tuple(left + i for i in node.right_keys)])
    if isinstance(operator, DeltaJoin):
        starts = [sum(i.width for i in operator.inputs[:at]) for at, _ in operator.owned]
        return [tuple(s + i for i in a.layout.key) for s, (_, a) in zip(starts, operator.owned, strict=True)]
    if isinstance(operator, Arrange):
        return [operator.arrangement.layout.key]
    return []
