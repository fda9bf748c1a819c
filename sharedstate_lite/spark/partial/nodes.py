"""Additional operators of a partial graph that is sharded over bins; the others are in `sharedstate_lite.partial`.

Each bin has a copy of every operator of its stage, for some of the keys. If rows change their bin on an edge, the edge
is replaced by one edge per bin (`RemoteEdge`). A `GatherNode` sends an upquery to the copies above it and combines
their responses. It is a union, so rule 22 holds as it does in process. Base tables are outside the bins, so a join
stores the rows of both sides for the filled keys (`StatefulJoinNode`).

Source: sharding in Noria (Gjengset's thesis, 2021, chapter 5).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from ...engine.state_tables import DURABLE, StatePart
from ...partial.join import JoinNode
from ...partial.nodes import BaseNode, PartialEdge, PartialNode, UnionNode, UnionUpquery
from ...partial.partial import Partial
from ...plan.nodes import Node
from ...storage import wire
from ...storage.batch import Delta, concat, distinct_rows
from ...storage.encoding import NULL, Words

ALL = -1


@dataclass(eq=False)
class RemoteEdge(PartialEdge):
    """An edge to or from another bin. ``bin`` is the number of that bin, or ``ALL`` for every bin that needs a row."""

    bin: int = ALL


class GatherNode(UnionNode):
    """Sends upqueries to the copies of an operator in all bins, and one combined response to the operator below it.

    Input ``i`` is the edge from bin ``i``. If ``keyed``, all rows of a key are in the bin that its hash selects, so
    only this bin receives an upquery for the key.
    """

    keyed = False

    def keys_of_bin(self, keys: Words, slot: int) -> Words:
        """Return those of ``keys``, words int64[k, q], that an upquery to bin ``slot`` must contain."""
        if not self.keyed:
            return keys
        types = [self.plan.schema[i].type for i in self.ask]
        where = wire.bin_of(keys, range(len(keys)), types, len(self.inputs), self.flow.strings)
        return keys.compress(where == slot, axis=1)

    def _ask(self, question: UnionUpquery, slot: int) -> None:
        keys = self.keys_of_bin(question.keys, slot)
        if not keys.shape[1]:
            question.answers[slot] = Delta.empty(len(self.plan.schema))
            return
        tag = self.flow.tag()
        question.tags[tag] = slot
        question.answers[slot] = None
        self.flow.send("upquery", self.inputs[slot], keys=keys, tag=tag, asked=question.asked)


class StatefulJoinNode(JoinNode):
    """A join that stores the rows of both sides for the filled keys.

    It differs from the in-process join if a change to the primary side has a join key that is a hole of the other side.
    The in-process join evicts the affected keys below it (rule 20). Here, both sides can be base tables, so such
    changes are frequent, and evicting keys would empty the view. Instead, the join stores the change in ``late`` and
    the missing key in ``wanted``, and sends an upquery for the key. When the key is filled, it joins the change and
    sends the result. A response that includes the change needs the same key, so it is sent later on the same edge.
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
        missing = gone.rows[list(self.keys[side])]
        missing = missing.compress(~self.flow.among(missing, self.wanted), axis=1)
        if missing.shape[1]:
            missing = distinct_rows(missing, self.types, self.flow.strings)
            self.wanted = np.concatenate([self.wanted, missing], axis=1)
            tag = self.flow.tag()
            self.flow.send("upquery", self.inputs[1 - side], keys=missing, tag=tag, asked=self.flow.now)
        return delta.take(there), np.empty((len(self.ask), 0), dtype=np.int64)

    def _fill(self, side: int, keys: Words, delta: Delta) -> None:
        super()._fill(side, keys, delta)
        if side != self.route.primary and len(self.late.diffs) + self.wanted.shape[1]:
            self._catch_up()

    def _catch_up(self) -> None:
        """Join and send the late changes whose join keys are now filled."""
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
        _, rows, diffs = other[0].match(distinct_rows(keys, self.types, strings), strings)
        self.send_change(self._joined(ready, Delta(rows, diffs[0])))

    def _forget(self, side: int, keys: Words) -> None:
        super()._forget(side, keys)
        if side == self.route.primary:
            # These keys also become holes below, and the next response for them contains the late changes.
            columns = self.route.columns
            self.late = self.late.take(~self.flow.among(self.late.rows[list(columns)], keys))

    def save(self) -> Any:
        return super().save(), self.late, self.wanted

    def restore(self, saved: Any) -> None:
        kept, self.late, self.wanted = saved
        super().restore(kept)


class GraphHost(Protocol):
    """The interface of a bin that runs a part of a `BinGraph`."""

    def send_remote(self, kind: str, edge: PartialEdge, **what: Any) -> None:
        """Send a message to an operator in another bin, or to a base table."""
        ...

    def on_filled(self, reader: PartialNode, keys: Words) -> None:
        """Called after ``keys`` of a reader, words int64[k, q], were filled."""
        ...

    def on_evicted(self, part: str, keys: Words) -> None:
        """Called after ``keys`` of the piece of state ``part`` were evicted."""
        ...


class BinGraph(Partial):
    """A partial graph. The bin ``host`` runs a part of it. Without a host, it is the driver's copy without rows."""

    join_node = StatefulJoinNode
    host: GraphHost | None = None
    host_number, host_count = 0, 1
    """The number of the bin among the bins of all stages, and the number of these bins. They make tags unique."""

    def base_parts(self) -> Iterator[StatePart]:
        """Return the base tables. They are files, without an index of the kit."""
        return (replace(part, bill=(DURABLE,)) for part in super().base_parts() if part.base)

    def tag(self) -> int:
        return super().tag() * self.host_count + self.host_number

    def send(self, kind: str, edge: PartialEdge, **what: Any) -> None:
        remote = isinstance(edge, RemoteEdge) or (kind == "upquery" and isinstance(edge.source, BaseNode))
        if self.host is not None and remote:
            self.host.send_remote(kind, edge, **what)
        elif isinstance(edge.source, GatherNode):
            # The bin that sent this message has already recorded it, so do not record it again.
            events, self.trace = self.trace, type(self.trace)()
            try:
                super().send(kind, edge, **what)
            finally:
                self.trace = events
        else:
            super().send(kind, edge, **what)

    def answered(self, reader: Any, keys: Words) -> None:
        if self.host is not None:
            self.host.on_filled(reader, keys)
        else:
            super().answered(reader, keys)

    def evicted(self, node: PartialNode, keys: Words, part: str) -> None:
        super().evicted(node, keys, part)
        if self.host is not None:
            self.host.on_evicted(part, keys)


def types_of(plan: Node, columns: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the types of some columns of a node's output."""
    return tuple(plan.schema[i].type for i in columns)


__all__ = ["ALL", "BinGraph", "RemoteEdge", "GatherNode", "StatefulJoinNode", "types_of"]
