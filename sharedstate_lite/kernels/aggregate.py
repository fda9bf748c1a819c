"""reduce_core: GROUP BY with MAX, MIN, SUM, COUNT, AVG, and DISTINCT (no aggregate at all).

State of a reduce, each part an arrangement by group:

- ``accumulators``: counts and integer sums, kept as vector diffs; they add, so a group
  is one row. Present when an aggregate needs it, or when there is none at all.
- ``limbs``: for each summed DOUBLE column its exact partial sum (:mod:`.float_sum`).
- ``output``: the last row emitted for each group: what the next change retracts.

MAX and MIN need more than their value: once the maximum is deleted, the second one is
wanted. Where from is the strategy's choice, so it is handed in as a ``Source``: the
operator's own multiset (full), the input's arrangement (shared), or nothing, in which
case the groups that lost their extremum are reported and read again from the parent
(partial; Noria, OSDI 2018).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import RowError
from ..plan.nodes import Agg, Reduce, Type
from ..storage.arrangement import Arrangement
from ..storage.batch import Delta, Layout, concat, distinct_sorted
from ..storage.encoding import NULL, Strings, Words, doubles, from_doubles
from ..storage.multiplicity import MAX_DIFF
from . import float_sum
from .join import net
from .minmax import Source, ordinals


class Change(NamedTuple):
    """What a reduce emits, and the groups (words int64[g, q]) whose extremum has to be read again."""

    delta: Delta
    lost: Words


@dataclass(frozen=True)
class ReducePlan:
    """What a Reduce node asks for, worked out once."""

    node: Reduce

    @cached_property
    def types(self) -> tuple[Type, ...]:
        """Types of the group columns."""
        return tuple(self.node.input.schema[i].type for i in self.node.keys)

    @cached_property
    def input(self) -> Layout:
        """The input's layout: by group, ordered by the first extreme, so that its greatest rows stand last."""
        first = self.extremes[0] if self.extremes else None
        return Layout(tuple(c.type for c in self.node.input.schema), self.node.keys, first)

    @cached_property
    def extremes(self) -> list[int]:
        """Input columns of MAX and MIN, each once."""
        return list(dict.fromkeys(a.arg for a in self.node.aggs if a.fn in ("max", "min") and a.arg is not None))

    @cached_property
    def counted(self) -> list[int]:
        """Input columns whose non-NULL values are counted."""
        return list(
            dict.fromkeys(a.arg for a in self.node.aggs if a.fn in ("count", "sum", "avg") and a.arg is not None)
        )

    @cached_property
    def summed(self) -> list[int]:
        """INT and BIGINT input columns that are summed: two accumulators each."""
        return [c for c in self._sums if self.node.input.schema[c].type is not Type.DOUBLE]

    @cached_property
    def floated(self) -> list[int]:
        """DOUBLE input columns that are summed."""
        return [c for c in self._sums if self.node.input.schema[c].type is Type.DOUBLE]

    @cached_property
    def _sums(self) -> list[int]:
        return list(dict.fromkeys(a.arg for a in self.node.aggs if a.fn in ("sum", "avg") and a.arg is not None))

    @cached_property
    def accumulates(self) -> bool:
        """Whether there is a row of accumulators a group; pure MAX and MIN do without."""
        return not self.node.aggs or any(a.fn not in ("max", "min") for a in self.node.aggs)

    @cached_property
    def width(self) -> int:
        """Accumulators a group: COUNT(*), a count a counted column, two words an integer sum."""
        return 1 + len(self.counted) + 2 * len(self.summed)


class ReduceState:
    """The state of one reduce, and the kernel over it. ``prefix`` names its arrangements."""

    def __init__(self, node: Reduce, prefix: str, upper: int) -> None:
        self.plan = ReducePlan(node)
        g, every = self.plan, tuple(range(len(node.keys)))
        self.output = Arrangement(f"{prefix}.output", Layout(tuple(c.type for c in node.schema), every), upper)
        self.accumulators = None
        if g.accumulates:
            self.accumulators = Arrangement(f"{prefix}.accumulators", Layout(g.types, every, width=g.width), upper)
        limbs = Layout((*g.types, Type.BIGINT), every)
        self.limbs = {c: Arrangement(f"{prefix}.limbs{c}", limbs, upper) for c in g.floated}

    @property
    def arrangements(self) -> list[Arrangement]:
        """All state of this reduce, the output last."""
        own = [] if self.accumulators is None else [self.accumulators]
        return [*own, *self.limbs.values(), self.output]

    def reduce_core(self, body: Words, sources: dict[int, Source] | None, strings: Strings) -> Change:
        """Apply a change of the input, a body of ``plan.input``; returns the change of the output.

        ``sources`` maps an extreme's input column to where its values are, with this change
        in it; None reports the groups that need them as lost and leaves their output alone.
        Raises RowError on overflow.
        """
        plan, k = self.plan, self.plan.input.columns
        rows, diffs = body[1 : 1 + k], body[1 + k]
        keys = rows[list(plan.node.keys)]
        first, kind = distinct_sorted(keys, body[0], plan.types, strings)
        groups = keys.take(first, axis=1)
        if not plan.node.keys:
            # A global aggregate has its one row even if nothing has come yet.
            groups = np.empty((0, 1), dtype=np.int64)
        q = groups.shape[1]
        nothing = Delta.empty(len(plan.node.schema))
        if not q:
            return Change(nothing, groups)
        old, there = self._last(groups, strings)
        alive = np.zeros(q, dtype=bool)
        sums = None
        if self.accumulators is not None:
            sums = self._accumulate(groups, rows, diffs, kind, strings)
            alive = sums[0] > 0
        values: dict[tuple[str, int], Words] = {}
        lost = np.zeros(q, dtype=bool)
        for column in plan.extremes:
            for fn in ("max", "min"):
                at = [i for i, a in enumerate(plan.node.aggs) if (a.fn, a.arg) == (fn, column)]
                if at:
                    source = None if sources is None else sources[column]
                    was = old[len(plan.node.keys) + at[0]]
                    found, exists, missing = self._extreme(
                        fn, column, groups, was, there, rows, diffs, kind, source, strings
                    )
                    values[fn, column] = found
                    lost |= missing
                    alive = alive if self.accumulators is not None else exists
        floats = {c: self._float_sum(c, groups, rows, diffs, kind, strings) for c in plan.floated}
        if not plan.node.keys:
            alive = np.ones(q, dtype=bool)
        new = np.concatenate([groups, *(self._value(a, sums, values, floats)[None, :] for a in plan.node.aggs)])
        changed = (alive != there) | (alive & there & (new != old).any(axis=0))
        changed &= ~lost
        if not changed.any():
            return Change(nothing, groups.compress(lost, axis=1))
        gone, come = changed & there, changed & alive
        minus = Delta(old.compress(gone, axis=1), np.full(int(gone.sum()), -1, dtype=np.int64))
        plus = Delta(new.compress(come, axis=1), np.ones(int(come.sum()), dtype=np.int64))
        out = concat([minus, plus], len(plan.node.schema))
        self.output.insert(out.rows, out.diffs, strings)
        return Change(out, groups.compress(lost, axis=1))

    def forget(self, groups: Words, strings: Strings) -> None:
        """Drop everything held for the groups, words int64[g, q]."""
        for part in self.arrangements:
            _, rows, diffs = part.match(groups, strings)
            part.insert(rows, -diffs if part.layout.width > 1 else -diffs[0], strings)

    def _last(self, groups: Words, strings: Strings) -> tuple[Words, npt.NDArray[np.bool_]]:
        owner, rows, diffs = self.output.match(groups, strings)
        if any(batch.timed for batch in self.output.runs):
            owner, rows, weights = net(owner, rows, diffs[0], self.output.layout.types, strings)
        else:
            weights = diffs[0]
        # A group has one row at a time, and a batch at most the one that it began with and the one that it ended
        # with. Matches come oldest batch first, so of those that were written the last one is there, if any is.
        old = np.full((self.output.layout.columns, groups.shape[1]), NULL, dtype=np.int64)
        written = np.flatnonzero(weights > 0)
        old[:, owner.take(written)] = rows.take(written, axis=1)
        there = np.bincount(owner, weights, groups.shape[1]) > 0
        old[:, ~there] = NULL
        return old, there

    def _accumulate(
        self, groups: Words, rows: Words, diffs: npt.NDArray[np.int64], kind: npt.NDArray[np.intp], strings: Strings
    ) -> npt.NDArray[np.int64]:
        assert self.accumulators is not None
        plan = self.plan
        steps = [diffs, *(np.where(rows[c] == NULL, 0, diffs) for c in plan.counted)]
        for column in plan.summed:
            words = np.where(rows[column] == NULL, 0, rows[column])
            # Two halves of 32 bits each: their sums cannot pass 64 bits while a group has under 2**31 rows.
            steps += [(words >> 32) * diffs, (words & 0xFFFFFFFF) * diffs]
        fresh = np.zeros((plan.width, groups.shape[1]), dtype=np.int64)
        for line, step in zip(fresh, steps, strict=True):
            np.add.at(line, kind, step)
        owner, _, held = self.accumulators.match(groups, strings)
        after = fresh.copy()
        for line, some in zip(after, held, strict=True):
            np.add.at(line, owner, some)
        if plan.summed or plan.floated:
            mass = float(np.abs(diffs).sum(dtype=np.float64))
            if mass >= MAX_DIFF:  # the whole epoch's; the largest group's costs more to find
                mass = float(np.bincount(kind, np.abs(diffs)).max())
            if max(mass, int(after[0].max(initial=0))) >= MAX_DIFF:
                raise RowError("a group under SUM or AVG has 2**31 rows or more; use smaller diffs")
        self.accumulators.insert(groups, fresh, strings)
        return after

    def _float_sum(
        self,
        column: int,
        groups: Words,
        rows: Words,
        diffs: npt.NDArray[np.int64],
        kind: npt.NDArray[np.intp],
        strings: Strings,
    ) -> npt.NDArray[np.float64]:
        part = self.limbs[column]
        some = np.flatnonzero(rows[column] != NULL)
        where, windows, limbs = float_sum.split(doubles(np.ascontiguousarray(rows[column][some])))
        where = some[where]
        part.insert(np.concatenate([groups.take(kind[where], axis=1), windows[None, :]]), limbs * diffs[where], strings)
        owner, held, weights = part.match(groups, strings)
        return float_sum.total(owner, held[-1], weights[0], groups.shape[1])

    def _extreme(
        self,
        fn: str,
        column: int,
        groups: Words,
        was: Words,
        there: npt.NDArray[np.bool_],
        rows: Words,
        diffs: npt.NDArray[np.int64],
        kind: npt.NDArray[np.intp],
        source: Source | None,
        strings: Strings,
    ) -> tuple[Words, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """The new extremes, which groups exist, and (without a source) which cannot be told."""
        order = ordinals(self.plan.input.types[column], fn == "min", strings, was, rows[column])
        best, value = order.ranks  # where a group is not there, its best is NULL, the least
        come = np.full(len(best), NULL, dtype=np.int64)
        added = diffs > 0
        some, unsure = np.zeros(len(best), dtype=bool), np.zeros(len(best), dtype=bool)
        grown = kind.compress(added)
        some[grown] = True
        np.maximum.at(come, grown, value.compress(added))
        # Only the loss of the extremum itself can bring a worse one; ties decide nothing yet.
        hit = kind.compress(~added & (value >= best.take(kind)))
        if len(hit):
            unsure[hit] = True
            unsure &= ~(some & (come > best)) & ~(some & (come == best) & there)
        rank = np.maximum(best, come)
        exists = there | some
        ask = np.flatnonzero(unsure)
        if source is None or not len(ask):
            return order.words(rank), exists, unsure
        found = order.words(rank)
        found[ask], exists[ask] = source.extremes(groups.take(ask, axis=1), fn == "min", strings)
        return found, exists, np.zeros(len(best), dtype=bool)

    def _value(
        self,
        agg: Agg,
        sums: npt.NDArray[np.int64] | None,
        values: dict[tuple[str, int], Words],
        floats: dict[int, npt.NDArray[np.float64]],
    ) -> Words:
        plan = self.plan
        if agg.fn in ("max", "min"):
            assert agg.arg is not None
            return values[agg.fn, agg.arg]
        assert sums is not None
        if agg.arg is None:
            return np.asarray(sums[0])
        count = np.asarray(sums[1 + plan.counted.index(agg.arg)])
        if agg.fn == "count":
            return count
        if agg.arg in plan.floated:
            total = floats[agg.arg]
        else:
            at = 1 + len(plan.counted) + 2 * plan.summed.index(agg.arg)
            high = sums[at] + (sums[at + 1] >> 32)
            low = sums[at + 1] & 0xFFFFFFFF
            if agg.fn == "sum":
                fits = (high >= -(1 << 31)) & (high < (1 << 31)) & ((high << 32) + low != NULL)
                if not (fits | (count <= 0)).all():
                    raise RowError("a SUM passes the range of BIGINT (64 bits); CAST its argument AS DOUBLE")
                return np.where(count > 0, (high << 32) + low, NULL)
            total = high.astype(np.float64) * 2.0**32 + low.astype(np.float64)
        if agg.fn == "avg":
            total = total / np.maximum(count, 1)
        return from_doubles(np.where(count > 0, total, np.nan))
