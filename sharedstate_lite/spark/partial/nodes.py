"""The operators of partial state where one graph is spread over bins: what the core's lack for that, and no more.

Each operator stands in several bins, each copy for some keys. An edge whose rows change
their bin becomes many (:class:`RemoteEdge`), and a copy that asks over it may have to ask
several: :class:`GatherNode`, a union of the copies above, so that rule 22 is the core's. A
join cannot read base tables, which are not in the bins; so it holds the rows of both
sides for the keys that are filled (:class:`StatefulJoinNode`), and what it lacks when a change
comes it asks for, as a question does, and sends the change when it has it.

After Noria's sharding (Gjengset's thesis, 2021, chapter 5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...partial.join import JoinNode
from ...partial.nodes import BaseNode, PartialEdge, PartialNode, UnionNode, UnionUpquery
from ...partial.partial import Partial
from ...plan.nodes import Node
from ...storage import wire
from ...storage.batch import Delta, concat, distinct
from ...storage.encoding import NULL, Words

if TYPE_CHECKING:
    from collections.abc import Callable

ALL = -1


@dataclass(eq=False)
class RemoteEdge(PartialEdge):
    """An edge to, or from, another bin: ``bin`` is the one at its far end, ``ALL`` of them for what goes to whoever
    wants it."""

    bin: int = ALL


class GatherNode(UnionNode):
    """Stands before an operator's input: asks the copies of the operator above, and sends one combined response.

    Input ``i`` comes from bin ``i``. With ``keyed``, a key is known in one bin only, and asked there.
    """

    keyed = False

    def _part(self, keys: Words, slot: int) -> Words:
        if not self.keyed:
            return keys
        types = [self.plan.schema[i].type for i in self.ask]
        where = wire.bin_of(keys, range(len(keys)), types, len(self.inputs), self.flow.strings)
        return keys.compress(where == slot, axis=1)

    def _ask(self, question: UnionUpquery, slot: int) -> None:
        keys = self._part(question.keys, slot)
        if not keys.shape[1]:
            question.answers[slot] = Delta.empty(len(self.plan.schema))
            return
        tag = self.flow.tag()
        question.tags[tag] = slot
        question.answers[slot] = None
        self.flow.send("upquery", self.inputs[slot], keys=keys, tag=tag, asked=question.asked)


class StatefulJoinNode(JoinNode):
    """A join that holds both sides for the keys that are filled, and asks for partners that a change lacks.

    Changes of the primary side whose join key is a hole of the other side wait in ``late``;
    once the key is filled they are joined and sent. That comes before any answer that
    includes them, since an answer needs the same key filled.
    """

    def prepare(self) -> None:
        super().prepare()
        self.late = Delta.empty(len(self.plan.inputs[self.route.primary].schema))
        self.wanted: Words = np.empty((len(self.types), 0), dtype=np.int64)

    def caches(self, side: int) -> bool:
        return True

    def _lost(self, side: int, delta: Delta) -> tuple[Delta, Words | None] | None:
        other = self.cached[1 - side]
        if side != self.route.primary or other is None or "rule20" in self.flow.without:
            return None
        keys = delta.rows[list(self.keys[side])]
        there = other[2].mask(keys, self.flow.strings) | (keys == NULL).any(axis=0)
        if there.all():
            return None
        gone = delta.take(~there)
        self.late = concat([self.late, gone], len(gone.rows))
        schema = self.plan.inputs[side].schema
        missing = gone.rows[list(self.keys[side])]
        missing = missing.compress(~self.flow.among(missing, self.wanted, schema, self.keys[side]), axis=1)
        if missing.shape[1]:
            first, _ = distinct(missing, self.types, self.flow.strings)
            missing = missing.take(first, axis=1)
            self.wanted = np.concatenate([self.wanted, missing], axis=1)
            tag = self.flow.tag()
            self.flow.send("upquery", self.inputs[1 - side], keys=missing, tag=tag, asked=self.flow.now)
        return delta.take(there), np.empty((len(self.ask), 0), dtype=np.int64)

    def _fill(self, side: int, keys: Words, delta: Delta) -> None:
        super()._fill(side, keys, delta)
        if side != self.route.primary and len(self.late.diffs) + self.wanted.shape[1]:
            self._catch_up()

    def _catch_up(self) -> None:
        """Send the late changes whose partners are here now."""
        primary, strings = self.route.primary, self.flow.strings
        other = self.cached[1 - primary]
        assert other is not None
        self.wanted = self.wanted.compress(~other[2].mask(self.wanted, strings), axis=1)
        keys = self.late.rows[list(self.keys[primary])]
        there = other[2].mask(keys, strings)
        if not there.any():
            return
        ready, self.late = self.late.take(there), self.late.take(~there)
        keys = keys.compress(there, axis=1)
        first, _ = distinct(keys, self.types, strings)
        _, rows, diffs = other[0].match(keys.take(first, axis=1), strings)
        self.send_change(self._joined(ready, Delta(rows, diffs[0])))

    def _forget(self, side: int, keys: Words) -> None:
        super()._forget(side, keys)
        if side == self.route.primary:
            # Below they are holes as well: who asks again will be told all of it.
            columns = self.route.columns
            gone = self.flow.among(self.late.rows[list(columns)], keys, self.plan.inputs[side].schema, columns)
            self.late = self.late.take(~gone)

    def save(self) -> Any:
        return super().save(), self.late, self.wanted

    def back(self, saved: Any) -> None:
        kept, self.late, self.wanted = saved
        super().back(kept)


class BinGraph(Partial):
    """A partial graph of which a bin runs a part: what goes to other bins is handed to ``post``."""

    join_node = StatefulJoinNode
    post: Callable[..., None] | None = None
    found: Callable[[PartialNode, Words], None] | None = None
    gone: Callable[[str, Words], None] | None = None
    place = (0, 1)
    """This bin's number among all of the engine's, and how many there are: names of questions are unique."""

    def tag(self) -> int:
        number, count = self.place
        return super().tag() * count + number

    def send(self, kind: str, edge: PartialEdge, **what: Any) -> None:
        if self.post is None:
            super().send(kind, edge, **what)
        elif isinstance(edge, RemoteEdge) or (kind == "upquery" and isinstance(edge.source, BaseNode)):
            self.post(kind, edge, **what)
        elif isinstance(edge.source, GatherNode):
            self.silent(kind, edge, **what)
        else:
            super().send(kind, edge, **what)

    def silent(self, kind: str, edge: PartialEdge, **what: Any) -> None:
        """Send within a bin what is no message of the graph."""
        events, self.trace = self.trace, type(self.trace)()
        try:
            super().send(kind, edge, **what)
        finally:
            self.trace = events

    def answered(self, reader: Any, keys: Words) -> None:
        if self.found is not None:
            self.found(reader, keys)
        else:
            super().answered(reader, keys)

    def evicted(self, node: PartialNode, keys: Words, part: str) -> None:
        super().evicted(node, keys, part)
        if self.gone is not None:
            self.gone(part, keys)


def schema_of(plan: Node, columns: tuple[int, ...]) -> tuple[Any, ...]:
    """The types of some columns of a node's output."""
    return tuple(plan.schema[i].type for i in columns)


__all__ = ["ALL", "BinGraph", "RemoteEdge", "GatherNode", "StatefulJoinNode", "schema_of"]
