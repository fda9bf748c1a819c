"""The join of a partial dataflow.

It is asked by columns of one side, the primary one; the answer of that side says which
join keys the other side has to be asked for. Both answers are held, and kept current by
the changes that arrive meanwhile, until nothing is missing; then one response goes down.

A change is joined at once with the other side: with the base tables under it, read as of
what has arrived from there, or, where that side is itself an aggregate and so partial,
with the rows of it that are held here (kind "join" in ``state()``). If the primary side
changes and the other is a hole for the new join key (the two are then keyed by different
columns: an incongruent join), the change cannot be computed, and the keys it would have
changed are evicted below (rule 20).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..kernels.join import Matches, join_core, padding
from ..plan.nodes import Join
from ..storage.arrangement import Arrangement
from ..storage.batch import Delta, Layout, concat, distinct
from ..storage.encoding import NULL, Words
from .base_reads import JoinSide, plan_upquery, stateless
from .filled_keys import FilledKeys
from .nodes import InnerNode, PartialEdge, Position


@dataclass
class JoinUpquery:
    """An upquery that the join is answering, and what is held of each side (None before its first answer)."""

    edge: PartialEdge
    keys: Words
    asked: int
    tags: dict[int, int] = field(default_factory=dict)
    primary: Delta | None = None
    other: Delta | None = None
    covered: Words | None = None


class JoinNode(InnerNode):
    """See the module."""

    plan: Join

    def prepare(self) -> None:
        """After the inputs are connected: make the sides' state where a side is an aggregate."""
        self.route = plan_upquery(self.plan, self.ask)
        self.keys = (self.plan.left_keys, self.plan.right_keys)
        self.types = tuple(self.plan.left.schema[i].type for i in self.plan.left_keys)
        self.cached: list[tuple[Arrangement, Arrangement, FilledKeys] | None] = []
        for side, below in enumerate(self.plan.inputs):
            if not self.caches(side):
                self.cached.append(None)
                continue
            types = tuple(c.type for c in below.schema)
            ask = self.inputs[side].ask
            rows = Arrangement(f"{self.name}.{('left', 'right')[side]}", Layout(types, ask))
            by = rows if ask == self.keys[side] else Arrangement(f"{rows.name}.by", Layout(types, self.keys[side]))
            self.cached.append((rows, by, FilledKeys(rows.layout.key_types)))
        self.open_upqueries: dict[int, JoinUpquery] = {}

    def caches(self, side: int) -> bool:
        """Whether rows of a side are held here: what is base tables alone is looked up in them."""
        return not stateless(self.plan.inputs[side])

    # --- questions --------------------------------------------------------------

    def on_upquery(self, edge: PartialEdge, tag: int, keys: Words, asked: int) -> None:
        self.open_upqueries[tag] = JoinUpquery(edge, keys, asked)
        self._ask_primary(self.open_upqueries[tag])
        self._go_on(tag, self.open_upqueries[tag])

    def _ask_primary(self, question: JoinUpquery) -> None:
        side = self.route.primary
        question.primary = question.other = question.covered = None
        question.tags.clear()
        keys = question.keys[list(self.route.answers)]
        first, _ = distinct(
            keys, tuple(self.plan.schema[self.ask[i]].type for i in self.route.answers), self.flow.strings
        )
        keys = keys.take(first, axis=1)
        question.primary = self._local(side, keys)
        if question.primary is None:
            self._ask(question, side, keys)

    def _local(self, side: int, keys: Words) -> Delta | None:
        """The rows of keys of a side that is held here, if none of them is a hole."""
        held = self.cached[side]
        if held is None:
            return None
        rows, _, filled = held
        if not filled.mask(keys, self.flow.strings).all():
            return None
        filled.touch(keys, self.flow.strings, self.flow.clock)
        _, found, diffs = rows.match(keys, self.flow.strings)
        return Delta(found, diffs[0])

    def _ask(self, question: JoinUpquery, side: int, keys: Words) -> None:
        tag = self.flow.tag()
        question.tags[tag] = side
        self.flow.send("upquery", self.inputs[side], keys=keys, tag=tag, asked=question.asked)

    def on_response(self, edge: PartialEdge, tag: int, keys: Words, delta: Delta) -> None:
        name, question = next(((n, q) for n, q in self.open_upqueries.items() if tag in q.tags), (0, None))
        self._fill(edge.slot, keys, delta)
        if question is None:
            return
        side = question.tags.pop(tag)
        if side == self.route.primary:
            question.primary = delta
        else:
            self._cover(question, keys, delta)
        self._go_on(name, question)

    @staticmethod
    def _cover(question: JoinUpquery, keys: Words, delta: Delta) -> None:
        question.other = delta if question.other is None else concat([question.other, delta], len(delta.rows))
        question.covered = keys if question.covered is None else np.concatenate([question.covered, keys], axis=1)

    def _fill(self, side: int, keys: Words, delta: Delta) -> None:
        held = self.cached[side]
        if held is not None:
            rows, by, filled = held
            fresh = keys.compress(~filled.mask(keys, self.flow.strings), axis=1)
            schema, ask = self.plan.inputs[side].schema, self.inputs[side].ask
            meant = delta.take(self.flow.among(delta.rows[list(ask)], fresh, schema, ask))
            self._write(rows, by, meant)
            filled.add(fresh, self.flow.strings, self.flow.clock)

    def _write(self, rows: Arrangement, by: Arrangement, delta: Delta) -> None:
        rows.insert(delta.rows, delta.diffs, self.flow.strings)
        if by is not rows:
            by.insert(delta.rows, delta.diffs, self.flow.strings)
        self.flow.wrote(self, delta)

    def _missing(self, question: JoinUpquery) -> Words:
        """Join keys of the primary rows that the other side has not been asked for yet."""
        side = self.route.primary
        assert question.primary is not None
        keys = question.primary.rows[list(self.keys[side])]
        keys = keys.compress((keys != NULL).all(axis=0), axis=1)
        first, _ = distinct(keys, self.types, self.flow.strings)
        keys = keys.take(first, axis=1)
        if question.covered is not None and keys.shape[1]:
            schema = self.plan.inputs[side].schema
            keys = keys.compress(~self.flow.among(keys, question.covered, schema, self.keys[side]), axis=1)
        return keys

    def _go_on(self, name: int, question: JoinUpquery) -> None:
        """Ask for what is missing, or answer."""
        if question.tags or question.primary is None:
            return
        other = 1 - self.route.primary
        missing = self._missing(question)
        if missing.shape[1]:
            found = self._local(other, missing)
            if found is None:
                self._ask(question, other, missing)
                return
            self._cover(question, missing, found)
        del self.open_upqueries[name]
        rows = Delta.empty(len(self.plan.inputs[other].schema)) if question.other is None else question.other
        answer = self._joined(question.primary, rows)
        schema = self.plan.schema
        answer = answer.take(self.flow.among(answer.rows[list(self.ask)], question.keys, schema, self.ask))
        self.flow.send("response", question.edge, keys=question.keys, delta=answer, tag=name, at=self.at())

    def _joined(self, primary: Delta, other: Delta) -> Delta:
        """The join of what is held of the two sides."""
        side = self.route.primary
        keys, strings = self.keys, self.flow.strings
        layout = Layout(tuple(c.type for c in self.plan.inputs[1 - side].schema), keys[1 - side])
        table = Arrangement("held", layout)
        table.insert(other.rows, other.diffs, strings)
        look = JoinSide(layout.columns, lambda k, _: table.match(k, strings))
        none = JoinSide(len(primary.rows), lambda k, _: _nothing(len(primary.rows)))
        empty = Delta.empty(layout.columns)
        deltas, sides = ((primary, empty), (none, look)) if side == 0 else ((empty, primary), (look, none))
        parts = [join_core(deltas, sides, keys, self.types, 0, strings)]
        if self.plan.outer:
            parts.append(padding(deltas, sides, keys, self.types, 0, strings))
        return concat(parts, len(self.plan.schema))

    # --- changes ----------------------------------------------------------------

    def on_change(self, edge: PartialEdge, delta: Delta, before: Position) -> None:
        side, strings = edge.slot, self.flow.strings
        held = self.cached[side]
        if held is not None:
            rows, by, filled = held
            delta = self.keep_filled(filled, delta, edge)
            self._write(rows, by, delta)
        for question in self.open_upqueries.values():
            self._keep_current(question, side, delta)
        if len(delta.diffs):
            lost = self._lost(side, delta)
            if lost is not None:
                delta, keys = lost
            empty = Delta.empty(len(self.plan.inputs[1 - side].schema))
            deltas = (delta, empty) if side == 0 else (empty, delta)
            sides = (self._side(0, side, before), self._side(1, side, before))
            parts = [join_core(deltas, sides, self.keys, self.types, 0, strings)]
            if self.plan.outer:
                parts.append(padding(deltas, sides, self.keys, self.types, 0, strings))
            self.send_change(concat(parts, len(self.plan.schema)))
            if lost is not None:
                self.pass_evict(keys)
        for name, question in list(self.open_upqueries.items()):
            if name in self.open_upqueries:
                self._go_on(name, question)

    def _keep_current(self, question: JoinUpquery, side: int, delta: Delta) -> None:
        """Add a change to the half of a question that has been answered, and only to that."""
        if "rule18" in self.flow.without or "rule22" in self.flow.without or not len(delta.diffs):
            return
        schema = self.plan.inputs[side].schema
        if side == self.route.primary and question.primary is not None:
            keys = question.keys[list(self.route.answers)]
            meant = self.flow.among(delta.rows[list(self.route.columns)], keys, schema, self.route.columns)
            question.primary = concat([question.primary, delta.take(meant)], len(schema))
        elif side != self.route.primary and question.covered is not None and question.other is not None:
            meant = self.flow.among(delta.rows[list(self.keys[side])], question.covered, schema, self.keys[side])
            question.other = concat([question.other, delta.take(meant)], len(schema))

    def _lost(self, side: int, delta: Delta) -> tuple[Delta, Words | None] | None:
        """Of a primary change: the part whose partners are a hole here, as the keys to evict; and the rest."""
        held = self.cached[1 - side]
        if held is None or side != self.route.primary:
            return None
        keys = delta.rows[list(self.keys[side])]
        there = held[2].mask(keys, self.flow.strings) | (keys == NULL).any(axis=0)
        if there.all() or "rule20" in self.flow.without:
            return None
        gone = delta.rows.compress(~there, axis=1)
        wanted = gone[list(self.route.columns)] if not self.route.rest else None
        return delta.take(there), wanted

    def _side(self, which: int, moving: int, before: Position) -> JoinSide:
        edge, held, strings = self.inputs[which], self.cached[which], self.flow.strings
        columns = len(self.plan.inputs[which].schema)
        if held is not None:
            _, by, _ = held

            def stored(keys: Words, past: bool) -> Matches:
                return by.match(keys, strings, by.upper - 1 if past and which == moving else None)

            return JoinSide(columns, stored)

        def read(keys: Words, past: bool) -> Matches:
            return self.flow.fetch(edge, self.keys[which], keys, before if past and which == moving else edge.at)

        return JoinSide(columns, read)

    # --- eviction ---------------------------------------------------------------

    def on_evict(self, edge: PartialEdge, keys: Words | None) -> None:
        side, held = edge.slot, self.cached[edge.slot]
        if keys is None:
            keys = held[2].keys if held is not None else None
        below = (
            None
            if keys is None or self.route.rest
            else keys
            if side == self.route.primary
            else self._dependants(side, keys)
        )
        if keys is not None:
            self._forget(side, keys)
        self.pass_evict(below)
        for name, question in list(self.open_upqueries.items()):
            # A held half may miss changes from now on: begin again.
            self._ask_primary(question)
            self._go_on(name, question)

    def _dependants(self, side: int, keys: Words) -> Words:
        """The keys below whose rows have partners among ``keys`` of the other side."""
        primary = self.route.primary
        _, rows, _ = self._side(primary, -1, {}).match(keys, None)
        found = rows[list(self.route.columns)]
        first, _ = distinct(found, tuple(self.plan.schema[i].type for i in self.ask), self.flow.strings)
        return found.take(first, axis=1)

    def _forget(self, side: int, keys: Words) -> None:
        held = self.cached[side]
        if held is not None:
            rows, by, filled = held
            gone = filled.remove(keys, self.flow.strings)
            _, old, diffs = rows.match(gone, self.flow.strings)
            self._write(rows, by, Delta(old, -diffs[0]))
            if gone.shape[1]:
                # The keys of the two sides are of different columns, so each side tells its own.
                self.flow.evicted(self, gone, rows.name)

    def evict_side(self, side: int, keys: Words) -> None:
        """Make join keys of a held side holes, and what depends on them below."""
        self.on_evict(self.inputs[side], keys)

    # --- state ------------------------------------------------------------------

    def parts(self) -> list[tuple[Arrangement, str, tuple[str, ...], FilledKeys | None]]:
        out: list[tuple[Arrangement, str, tuple[str, ...], FilledKeys | None]] = []
        for side, held in enumerate(self.cached):
            if held is not None:
                names = tuple(c.name for c in self.plan.inputs[side].schema)
                out.append((held[0], "join", names, held[2]))
                if held[1] is not held[0]:
                    out.append((held[1], "join", names, None))
        return out

    def save(self) -> Any:
        filled = [None if h is None else h[2].copy() for h in self.cached]
        return filled, {n: replace(q, tags=dict(q.tags)) for n, q in self.open_upqueries.items()}

    def back(self, saved: Any) -> None:
        filled, self.open_upqueries = saved
        self.cached = [
            None if h is None or f is None else (h[0], h[1], f) for h, f in zip(self.cached, filled, strict=True)
        ]

    def recode(self, moved: Words) -> None:
        for held in self.cached:
            if held is not None:
                held[2].recode(moved)


def _nothing(columns: int) -> Matches:
    return np.empty(0, dtype=np.intp), np.empty((columns, 0), dtype=np.int64), np.empty((1, 0), dtype=np.int64)
