"""The join operator of a partial graph.

An upquery is answered in two steps. First, the join asks its *primary* side, which has the columns of the upquery. Then
it asks the other side for the join keys of the rows that it received. It stores both answers until they are complete,
and adds changes that arrive in the meantime to them. Then it sends a single response down.

A change is joined with the other side as soon as it arrives. If that side depends only on base tables, they are read as
of the position that the side has reached. If it contains an aggregate, the change is joined with the rows that the join
caches for this side (kind "join" in ``state()``).

A join is *incongruent* if its sides are keyed by different columns. A change of the primary side can then have a join
key that is a hole on the other side. Its effect cannot be computed here, so the affected keys are evicted from the
operators below (rule 20). The join on Spark (``StatefulJoinNode``) handles this case differently. It keeps the change,
sends an upquery for the missing key, and joins the change when the response arrives. It does not evict any keys, but it
stores rows of both sides. On Spark both sides can be base tables, so such changes are frequent, and evictions would
empty the view.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..dataflow.row_functions import apply_to_matches
from ..errors import RowError
from ..kernels.join import Matches, join_core, padding
from ..plan.nodes import Join
from ..storage.arrangement import Arrangement
from ..storage.batch import Delta, Layout, concat, distinct_rows
from ..storage.encoding import NULL, Words
from .base_reads import JoinSide, plan_upquery, stateless
from .failing_rows import apply_to_good_matches, failing
from .filled_keys import FilledKeys, Mask
from .nodes import ApplyLinear, InnerNode, PartialEdge, Position


@dataclass
class JoinUpquery:
    """An upquery that the join is answering, with the rows received from each side (None before its first answer)."""

    edge: PartialEdge
    keys: Words
    asked: int
    tags: dict[int, int] = field(default_factory=dict)
    primary: Delta | None = None
    other: Delta | None = None
    covered: Words | None = None


class JoinNode(InnerNode):
    """The join operator. The module docstring describes how it processes messages."""

    plan: Join

    def prepare(self) -> None:
        """Create the caches. The inputs must be connected already."""
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
        """Return whether the join caches rows of a side. It does not if it can read the side from base tables."""
        return not stateless(self.plan.inputs[side])

    # --- upqueries --------------------------------------------------------------

    def on_upquery(self, edge: PartialEdge, tag: int, keys: Words, asked: int) -> None:
        self.open_upqueries[tag] = JoinUpquery(edge, keys, asked)
        self._ask_primary(self.open_upqueries[tag])
        self._go_on(tag, self.open_upqueries[tag])

    def _ask_primary(self, upquery: JoinUpquery) -> None:
        side = self.route.primary
        upquery.primary = upquery.other = upquery.covered = None
        upquery.tags.clear()
        keys = upquery.keys[list(self.route.answers)]
        types = tuple(self.plan.schema[self.ask[i]].type for i in self.route.answers)
        keys = distinct_rows(keys, types, self.flow.strings)
        upquery.primary = self._local(side, keys)
        if upquery.primary is None:
            self._ask(upquery, side, keys)

    def _local(self, side: int, keys: Words) -> Delta | None:
        """Return the cached rows of a side for these keys, or None if the side is not cached or a key is a hole."""
        cache = self.cached[side]
        if cache is None:
            return None
        rows, _, filled = cache
        if not filled.mask(keys, self.flow.strings).all():
            return None
        filled.touch(keys, self.flow.strings, self.flow.clock)
        _, found, diffs = rows.match(keys, self.flow.strings)
        return Delta(found, diffs[0])

    def _ask(self, upquery: JoinUpquery, side: int, keys: Words) -> None:
        tag = self.flow.tag()
        upquery.tags[tag] = side
        self.flow.send("upquery", self.inputs[side], keys=keys, tag=tag, asked=upquery.asked)

    def on_response(self, edge: PartialEdge, tag: int, keys: Words, delta: Delta) -> None:
        name, upquery = next(((n, q) for n, q in self.open_upqueries.items() if tag in q.tags), (0, None))
        self._fill(edge.slot, keys, delta)
        if upquery is None:
            return
        side = upquery.tags.pop(tag)
        if side == self.route.primary:
            upquery.primary = delta
        else:
            self._cover(upquery, keys, delta)
        self._go_on(name, upquery)

    @staticmethod
    def _cover(upquery: JoinUpquery, keys: Words, delta: Delta) -> None:
        upquery.other = delta if upquery.other is None else concat([upquery.other, delta], len(delta.rows))
        upquery.covered = keys if upquery.covered is None else np.concatenate([upquery.covered, keys], axis=1)

    def _fill(self, side: int, keys: Words, delta: Delta) -> None:
        cache = self.cached[side]
        if cache is not None:
            rows, by, filled = cache
            fresh = keys.compress(~filled.mask(keys, self.flow.strings), axis=1)
            self._write(rows, by, delta.take(self.flow.among(delta.rows[list(self.inputs[side].ask)], fresh)))
            filled.add(fresh, self.flow.strings, self.flow.clock)

    def _write(self, rows: Arrangement, by: Arrangement, delta: Delta) -> None:
        rows.insert(delta.rows, delta.diffs, self.flow.strings)
        if by is not rows:
            by.insert(delta.rows, delta.diffs, self.flow.strings)
        self.flow.wrote(self, delta)

    def _missing(self, upquery: JoinUpquery) -> Words:
        """Return the join keys of the primary side's rows for which the other side has not been asked yet."""
        side = self.route.primary
        assert upquery.primary is not None
        keys = upquery.primary.rows[list(self.keys[side])]
        keys = keys.compress((keys != NULL).all(axis=0), axis=1)
        keys = distinct_rows(keys, self.types, self.flow.strings)
        if upquery.covered is not None:
            keys = keys.compress(~self.flow.among(keys, upquery.covered), axis=1)
        return keys

    def _go_on(self, name: int, upquery: JoinUpquery) -> None:
        """Continue with an upquery: ask the other side for missing keys, or send the response if there are none."""
        if upquery.tags or upquery.primary is None:
            return
        other = 1 - self.route.primary
        missing = self._missing(upquery)
        if missing.shape[1]:
            found = self._local(other, missing)
            if found is None:
                self._ask(upquery, other, missing)
                return
            self._cover(upquery, missing, found)
        del self.open_upqueries[name]
        rows = Delta.empty(len(self.plan.inputs[other].schema)) if upquery.other is None else upquery.other
        answer = self._joined(upquery.primary, rows)
        answer = answer.take(self.flow.among(answer.rows[list(self.ask)], upquery.keys))
        self.flow.send("response", upquery.edge, keys=upquery.keys, delta=answer, tag=name, at=self.at())

    def _joined(self, primary: Delta, other: Delta) -> Delta:
        """Return the join of rows from the two sides."""
        side = self.route.primary
        keys, strings = self.keys, self.flow.strings
        layout = Layout(tuple(c.type for c in self.plan.inputs[1 - side].schema), keys[1 - side])
        table = Arrangement("other side", layout)
        table.insert(other.rows, other.diffs, strings)
        look = JoinSide(layout.columns, lambda k, _: table.match(k, strings))
        none = JoinSide(len(primary.rows), lambda k, _: _nothing(len(primary.rows)))
        empty = Delta.empty(layout.columns)
        deltas, sides = ((primary, empty), (none, look)) if side == 0 else ((empty, primary), (look, none))
        parts = [join_core(deltas, sides, keys, 0, strings)]
        if self.plan.outer:
            parts.append(padding(deltas, sides, keys, self.types, 0, strings))
        return concat(parts, len(self.plan.schema))

    # --- changes ----------------------------------------------------------------

    def on_change(self, edge: PartialEdge, delta: Delta, before: Position) -> None:
        side, cache = edge.slot, self.cached[edge.slot]
        if cache is not None:
            rows, by, filled = cache
            delta = self.keep_filled(filled, delta, edge)
            self._write(rows, by, delta)
        for upquery in self.open_upqueries.values():
            self._keep_current(upquery, side, delta)
        if len(delta.diffs):
            lost = self._lost(side, delta)
            try:
                out = self._change(side, lost[0] if lost else delta, before, apply_to_matches)
            except RowError:
                lost = lost or self._split(delta, ~self._failing(side, delta, before))
                out = self._change(side, lost[0] if lost else delta, before, apply_to_good_matches)
            self.send_change(out)
            if lost:
                self.pass_evict(lost[1])
        for name, upquery in list(self.open_upqueries.items()):
            if name in self.open_upqueries:
                self._go_on(name, upquery)

    def _change(self, side: int, delta: Delta, before: Position, linear: ApplyLinear) -> Delta:
        """Return the change of the output that a change of one side causes."""
        empty = Delta.empty(len(self.plan.inputs[1 - side].schema))
        deltas = (delta, empty) if side == 0 else (empty, delta)
        sides = (self._side(0, side, before, linear), self._side(1, side, before, linear))
        parts = [join_core(deltas, sides, self.keys, 0, self.flow.strings)]
        if self.plan.outer:
            parts.append(padding(deltas, sides, self.keys, self.types, 0, self.flow.strings))
        return concat(parts, len(self.plan.schema))

    def _keep_current(self, upquery: JoinUpquery, side: int, delta: Delta) -> None:
        """Add a change of a side to the rows of an upquery if this side has already sent its answer."""
        if "rule18" in self.flow.without or "rule22" in self.flow.without or not len(delta.diffs):
            return
        if side == self.route.primary and upquery.primary is not None:
            wanted = self.flow.among(delta.rows[list(self.route.columns)], upquery.keys[list(self.route.answers)])
            upquery.primary = concat([upquery.primary, delta.take(wanted)], len(delta.rows))
        elif side != self.route.primary and upquery.covered is not None and upquery.other is not None:
            wanted = self.flow.among(delta.rows[list(self.keys[side])], upquery.covered)
            upquery.other = concat([upquery.other, delta.take(wanted)], len(delta.rows))

    def _lost(self, side: int, delta: Delta) -> tuple[Delta, Words | None] | None:
        """Split a change of the primary side into the part that can be joined and the keys to evict for the rest.

        The keys are None if all keys must be evicted. Returns None if the entire change can be joined.
        """
        cache = self.cached[1 - side]
        if cache is None or side != self.route.primary or "rule20" in self.flow.without:
            return None
        keys = delta.rows[list(self.keys[side])]
        return self._split(delta, cache[2].mask(keys, self.flow.strings) | (keys == NULL).any(axis=0))

    def _split(self, delta: Delta, joined: Mask) -> tuple[Delta, Words | None] | None:
        if joined.all():
            return None
        lost = delta.rows.compress(~joined, axis=1)
        evict = lost[list(self.route.columns)] if not self.route.rest else None
        return delta.take(joined), evict

    def _failing(self, side: int, delta: Delta, before: Position) -> Mask:
        """Return the rows of a change for which the lookup of the other side meets a failing row, as bool[n].

        If the other side is the primary side, there are no such rows: all keys of a failing row are holes below.
        """
        out = np.zeros(len(delta.diffs), dtype=bool)
        if side == self.route.primary:
            keys = delta.rows[list(self.keys[side])]
            live = np.flatnonzero((keys != NULL).all(axis=0))
            look = self._side(1 - side, side, before, apply_to_matches)
            out[live] = failing(lambda at: look.match(keys.take(live[at], axis=1), None), len(live))
        return out

    def _side(self, which: int, moving: int, before: Position, linear: ApplyLinear) -> JoinSide:
        edge, cache, strings = self.inputs[which], self.cached[which], self.flow.strings
        columns = len(self.plan.inputs[which].schema)
        if cache is not None:
            _, by, _ = cache

            def stored(keys: Words, past: bool) -> Matches:
                return by.match(keys, strings, by.upper - 1 if past and which == moving else None)

            return JoinSide(columns, stored)

        def read(keys: Words, past: bool) -> Matches:
            at = before if past and which == moving else edge.at
            return self.flow.fetch(edge, self.keys[which], keys, at, linear)

        return JoinSide(columns, read)

    # --- eviction ---------------------------------------------------------------

    def on_evict(self, edge: PartialEdge, keys: Words | None) -> None:
        side, cache = edge.slot, self.cached[edge.slot]
        if keys is None:
            keys = cache[2].keys if cache is not None else None
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
        for name, upquery in list(self.open_upqueries.items()):
            # A stored answer can miss changes after this eviction, so start again.
            self._ask_primary(upquery)
            self._go_on(name, upquery)

    def _dependants(self, side: int, keys: Words) -> Words:
        """Return the output keys that have rows which depend on one of ``keys`` on side ``side``."""
        primary = self.route.primary
        _, rows, _ = self._side(primary, -1, {}, apply_to_good_matches).match(keys, None)
        types = tuple(self.plan.schema[i].type for i in self.ask)
        return distinct_rows(rows[list(self.route.columns)], types, self.flow.strings)

    def _forget(self, side: int, keys: Words) -> None:
        cache = self.cached[side]
        if cache is not None:
            rows, by, filled = cache
            evicted = filled.remove(keys, self.flow.strings)
            _, old, diffs = rows.match(evicted, self.flow.strings)
            self._write(rows, by, Delta(old, -diffs[0]))
            if evicted.shape[1]:
                # The two sides have different key columns, so each is reported under its own name.
                self.flow.evicted(self, evicted, rows.name)

    def evict_side(self, side: int, keys: Words) -> None:
        """Evict keys of a cached side, and the keys of the operators below that depend on them."""
        self.on_evict(self.inputs[side], keys)

    # --- state ------------------------------------------------------------------

    def parts(self) -> list[tuple[Arrangement, str, tuple[str, ...], FilledKeys | None]]:
        out: list[tuple[Arrangement, str, tuple[str, ...], FilledKeys | None]] = []
        for side, cache in enumerate(self.cached):
            if cache is not None:
                names = tuple(c.name for c in self.plan.inputs[side].schema)
                out.append((cache[0], "join", names, cache[2]))
                if cache[1] is not cache[0]:
                    out.append((cache[1], "join", names, None))
        return out

    def save(self) -> Any:
        filled = [None if h is None else h[2].copy() for h in self.cached]
        return filled, {n: replace(q, tags=dict(q.tags)) for n, q in self.open_upqueries.items()}

    def restore(self, saved: Any) -> None:
        filled, self.open_upqueries = saved
        self.cached = [
            None if h is None or f is None else (h[0], h[1], f) for h, f in zip(self.cached, filled, strict=True)
        ]

    def recode(self, moved: Words) -> None:
        for cache in self.cached:
            if cache is not None:
                cache[2].recode(moved)


def _nothing(columns: int) -> Matches:
    return np.empty(0, dtype=np.intp), np.empty((columns, 0), dtype=np.int64), np.empty((1, 0), dtype=np.int64)
