"""The parts of the state of an engine without rows, and the prediction of their rows and bytes.

What a strategy stores is not guessed: the engine is built, and each of its arrangements is one of these parts, with the
plan's operator and the columns whose distinct values it stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from ..dataflow.dataflow import Dataflow
from ..dataflow.full import Full
from ..dataflow.operators import Arrange, JoinOperator, ReduceCore
from ..dataflow.shared import Shared
from ..engine.engine import Engine
from ..engine.state_tables import CACHED, StatePart
from ..errors import ViewError
from ..kernels import ReduceState
from ..partial.filled_keys import FilledKeys
from ..partial.join import JoinNode
from ..partial.nodes import LinearNode, PartialEdge, PartialNode, ReaderNode
from ..partial.partial import Partial
from ..partial.reduce import ReduceNode
from ..plan.nodes import Node, Reduce, Scan
from ..plan.view import View
from .predict import Columns, Doubts, Drawn, Guess, Predictor

KINDS: dict[str, type[Engine]] = {"full": Full, "shared": Shared, "partial": Partial}
WORD = 8
"""The bytes of a value, a weight, a sort word and a time."""


@dataclass(frozen=True)
class Stored:
    """What a part stores: the distinct values of ``columns`` of an operator, or the limbs of the sums of ``limbs``.

    ``drawn`` are the keys that a partial part has, and ``filled`` the columns of its set of filled keys, if it has one.
    """

    node: Node
    columns: Columns
    limbs: int | None = None
    drawn: Drawn | None = None
    filled: bool = False


@dataclass
class Priced:
    """A part of the state with its predicted rows and bytes, and later with the measured ones."""

    part: StatePart
    rows: int
    bytes: int
    doubts: Doubts
    measured: tuple[int, int] = field(default=(-1, -1))

    def amounts(self, unit: str) -> tuple[int, int]:
        """Return the predicted and the measured rows or bytes."""
        return (self.rows, self.measured[0]) if unit == "rows" else (self.bytes, self.measured[1])

    @property
    def cause(self) -> str:
        """The cause that makes this guess most doubtful, or "" if nothing was guessed."""
        cause = max(self.doubts, key=self.doubts.__getitem__, default="")
        return cause if cause and self.doubts[cause] > 1.0 else ""


def built(kind: str, views: Sequence[View]) -> tuple[Engine, dict[str, str]]:
    """Return an empty engine with the views that a strategy can maintain, and for each other view the reason.

    Raises ViewError if it can maintain none.
    """
    able, unable = [], {}
    for view in views:
        try:
            KINDS[kind]([view])
        except ViewError as error:
            unable[view.name] = str(error)
            continue
        able.append(view)
    if not able:
        raise ViewError(next(iter(unable.values())))
    return KINDS[kind](able), unable


def priced(engine: Engine, predictor: Predictor, share: float) -> list[Priced]:
    """Predict the parts of an empty engine. Of a partial engine, a ``share`` of the keys of each view is read."""
    sources = _partial(engine, predictor, share) if isinstance(engine, Partial) else _dataflow(engine)
    for relation, schema in engine.catalog.relations.items() if engine.catalog else ():
        if relation in engine.bases:
            whole = Stored(Scan(schema, relation), tuple(range(len(schema))))
            for part in engine.state_parts():
                if part.relation == relation and part.kind in ("base", "arrangement", "index"):
                    sources.setdefault(id(part.arrangement), whole)
    return [_priced(part, sources[id(part.arrangement)], predictor) for part in engine.state_parts()]


def _priced(part: StatePart, source: Stored, predictor: Predictor) -> Priced:
    node, layout = source.node, part.arrangement.layout
    guess = predictor.count(node, source.columns, source.drawn)
    if source.limbs is not None:
        sample = predictor.rows(node) if source.drawn is None else predictor.drawn(node, *source.drawn)
        guess = predictor.windows(source.limbs, guess, sample)
    rows = round(guess.rows)
    size = rows * WORD * (1 + layout.columns + layout.width)
    if source.filled and source.drawn is not None:
        keys = predictor.count(node, source.drawn[0], source.drawn).rows
        size += round(keys) * WORD * (2 + len(source.drawn[0]))
    return Priced(part, rows, size, guess.doubts)


def _every(node: Node) -> Columns:
    return tuple(range(len(node.schema)))


def _groups(node: Reduce, state: ReduceState, **more: Any) -> Iterable[tuple[int, Stored]]:
    for arrangement in state.arrangements:
        limbs = next((c for c, a in state.limbs.items() if a is arrangement), None)
        yield id(arrangement), Stored(node.input, node.keys, limbs, **more)


def _dataflow(engine: Engine) -> dict[int, Stored]:
    assert isinstance(engine, Dataflow)
    found: dict[int, Stored] = {}
    for operator in engine.operators:
        node = operator.node
        if isinstance(operator, Arrange):
            found[id(operator.arrangement)] = Stored(node, _every(node))
        elif isinstance(operator, JoinOperator):
            for side, arrangement in operator.owned:
                below = operator.inputs[side].node
                found[id(arrangement)] = Stored(below, _every(below))
        elif isinstance(operator, ReduceCore):
            assert isinstance(node, Reduce)
            found |= dict(_groups(node, operator.groups))
            found[id(operator.groups.output)] = Stored(node, _every(node))
            for column, values in operator.multisets.items():
                found[id(values)] = Stored(node.input, (*node.keys, column))
    for reader in engine.readers.values():
        if reader.own:
            found[id(reader.arrangement)] = Stored(reader.root.node, _every(reader.root.node))
    return found


def _partial(engine: Partial, predictor: Predictor, share: float) -> dict[int, Stored]:
    """Follow the upqueries of the drawn keys from the readers to the tables, and return what each operator caches."""
    asked: dict[int, float] = {}
    nodes = list(engine.nodes.values())
    for reader in nodes:
        if isinstance(reader, ReaderNode):
            _ask(reader.inputs[0], share, predictor, asked)
    found: dict[int, Stored] = {}
    for node in nodes:
        if isinstance(node, ReaderNode):
            found[id(node.rows)] = Stored(node.plan, _every(node.plan), None, (node.ask, share), True)
        elif isinstance(node, ReduceNode):
            found |= _cached_groups(node, asked.get(id(node), 0.0))
        elif isinstance(node, JoinNode):
            for side, cache in enumerate(node.cached):
                edge = node.inputs[side]
                drawn = edge.ask, asked.get(id(edge), 0.0)
                for arrangement in () if cache is None else dict.fromkeys(cache[:2]):
                    plan = edge.source.plan
                    assert cache is not None
                    found[id(arrangement)] = Stored(plan, _every(plan), None, drawn, arrangement is cache[0])
    return found


def _cached_groups(node: ReduceNode, share: float) -> dict[int, Stored]:
    plan = node.plan
    assert isinstance(plan, Reduce)
    drawn = tuple(plan.keys[i] for i in node.ask), share
    found = dict(_groups(plan, node.groups, drawn=drawn))
    for arrangement, *_, filled in node.parts():
        found[id(arrangement)] = Stored(
            plan.input, plan.keys, found.get(id(arrangement), Stored(plan.input, plan.keys)).limbs, drawn,
            isinstance(filled, FilledKeys),
        )  # fmt: skip
    return found


def _ask(edge: PartialEdge, share: float, predictor: Predictor, asked: dict[int, float]) -> None:
    """Note that a share of the keys of an edge is asked for, and what its source then asks for."""
    node: PartialNode = edge.source
    asked[id(edge)] = max(asked.get(id(edge), 0.0), share)
    asked[id(node)] = max(asked.get(id(node), 0.0), share)
    if not isinstance(node, JoinNode):
        for below in node.inputs:
            lost = isinstance(node, LinearNode | ReduceNode)
            _ask(below, _kept(predictor, node.plan, node.ask, below, share) if lost else share, predictor, asked)
        return
    route, first = node.route, node.inputs[node.route.primary]
    plan, keys = first.source.plan, node.keys[node.route.primary]
    of = _kept(predictor, node.plan, node.ask, first, share)
    if route.rest:
        mine = tuple(node.ask[i] for i in route.answers)
        some, every = predictor.count(node.plan, mine, (node.ask, share)), predictor.count(node.plan, mine)
        of = min(1.0, some.rows / max(every.rows, 1.0))
    _ask(first, of, predictor, asked)
    other = node.inputs[1 - route.primary]
    met, every = predictor.count(plan, keys, (first.ask, of)), predictor.count(other.source.plan, other.ask)
    _ask(other, min(1.0, met.rows / max(every.rows, 1.0)), predictor, asked)


def _kept(predictor: Predictor, plan: Node, ask: Columns, below: PartialEdge, share: float) -> float:
    """Return the share of the keys of an input: some of its keys are in no row of the output, and are not drawn."""
    if not ask or len(ask) != len(below.ask):
        return share
    some, every = predictor.count(plan, ask).rows, predictor.count(below.source.plan, below.ask).rows
    return share * min(1.0, some / max(every, 1.0))


def table(parts: Sequence[Priced], measured: bool = False) -> pd.DataFrame:
    """Return the parts as `engine.state()` does, with the predicted or the measured rows and bytes."""
    sizes = [p.measured if measured else (p.rows, p.bytes) for p in parts]
    columns = ["operator", "relation", "key", "rows", "bytes", "kind", "bill"]
    rows = [
        [p.part.operator, p.part.relation, p.part.key, *size, p.part.kind, " + ".join(p.part.bill)]
        for p, size in zip(parts, sizes, strict=True)
    ]
    return pd.DataFrame(rows, columns=columns).astype({"rows": "int64", "bytes": "int64"})


__all__ = ["CACHED", "KINDS", "Guess", "Priced", "Stored", "built", "priced", "table"]
