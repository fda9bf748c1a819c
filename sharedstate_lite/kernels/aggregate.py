"""GROUP BY with MAX, MIN, SUM, COUNT and AVG, and DISTINCT, which is a GROUP BY without aggregates.

The state of a reduce is stored in a few arrangements, which are keyed by group:

- ``accumulators``: one row per group, whose vector diff contains the group's counts and sums of integers. A reduce with
  only MAX and MIN does not have this arrangement.
- ``limbs``: one arrangement for each DOUBLE column that is summed (see `add_limbs` in :mod:`..loops.sums`).
- ``output``: the row that was last emitted for each group. The next change of the group retracts it.

For MAX, storing only the largest value is not enough. If it is retracted, the second largest value is the answer, so
all values must be stored. The caller decides where to store them: in the operator itself (full state) or in the
arrangement of its input (shared state). In both cases it passes a `Source`. Without a source, the kernel reports the
groups that lost their extreme value, and the caller reads them again from the parent (partial state; Noria, OSDI 2018).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .. import loops
from ..errors import RowError
from ..plan.nodes import Agg, Reduce, Type
from ..storage.arrangement import Arrangement
from ..storage.batch import Delta, Layout
from ..storage.encoding import Dictionary, Words, from_doubles
from ..storage.multiplicity import MAX_DIFF
from .join import net
from .minmax import Source, new_extremes

ANY = 2**63 - 1
"""The mass of a group that is only counted is not limited."""


class Change(NamedTuple):
    """The change of a reduce's output, and the groups, int64[g, q], whose extreme value must be read again."""

    delta: Delta
    lost: Words


@dataclass(frozen=True)
class ReducePlan:
    """The layout of a Reduce node's input, and the input columns that each kind of aggregate uses."""

    node: Reduce

    @cached_property
    def types(self) -> tuple[Type, ...]:
        """The types of the group columns."""
        return tuple(self.node.input.schema[i].type for i in self.node.keys)

    @cached_property
    def input(self) -> Layout:
        """The layout of the input, keyed by group and ordered by the column of the first MAX or MIN, if any."""
        first = self.extremes[0] if self.extremes else None
        return Layout(tuple(c.type for c in self.node.input.schema), self.node.keys, first)

    @cached_property
    def extremes(self) -> list[int]:
        """The distinct input columns of MAX and MIN."""
        return list(dict.fromkeys(a.arg for a in self.node.aggs if a.fn in ("max", "min") and a.arg is not None))

    @cached_property
    def first_extremes(self) -> dict[tuple[str, int], int]:
        """The output column of the first MAX or MIN of each function and input column."""
        columns = [(a.fn, a.arg, len(self.node.keys) + i) for i, a in enumerate(self.node.aggs)]
        return {(fn, arg): at for fn, arg, at in reversed(columns) if fn in ("max", "min") and arg is not None}

    @cached_property
    def counted(self) -> list[int]:
        """The input columns whose non-NULL values are counted."""
        return list(
            dict.fromkeys(a.arg for a in self.node.aggs if a.fn in ("count", "sum", "avg") and a.arg is not None)
        )

    @cached_property
    def summed(self) -> list[int]:
        """The INT and BIGINT input columns that are summed, with two accumulators each."""
        return [c for c in self._sums if self.node.input.schema[c].type is not Type.DOUBLE]

    @cached_property
    def floated(self) -> list[int]:
        """The DOUBLE input columns that are summed."""
        return [c for c in self._sums if self.node.input.schema[c].type is Type.DOUBLE]

    @cached_property
    def accumulated(self) -> tuple[Words, Words]:
        """`counted` and `summed` as arrays."""
        return np.array(self.counted, dtype=np.int64), np.array(self.summed, dtype=np.int64)

    @cached_property
    def _sums(self) -> list[int]:
        return list(dict.fromkeys(a.arg for a in self.node.aggs if a.fn in ("sum", "avg") and a.arg is not None))

    @cached_property
    def accumulates(self) -> bool:
        """Whether the reduce stores accumulators. If all aggregates are MAX or MIN, it does not need any."""
        return not self.node.aggs or any(a.fn not in ("max", "min") for a in self.node.aggs)

    @cached_property
    def width(self) -> int:
        """The number of accumulators: 1 for COUNT(*), 1 per counted column, and 2 per summed integer column."""
        return 1 + len(self.counted) + 2 * len(self.summed)


class ReduceState:
    """The state of one reduce, and the kernel that updates it. The names of its arrangements start with ``prefix``."""

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
        """All arrangements of this reduce, with the output last."""
        own = [] if self.accumulators is None else [self.accumulators]
        return [*own, *self.limbs.values(), self.output]

    def reduce_core(self, body: Words, sources: dict[int, Source] | None, strings: Dictionary) -> Change:
        """Apply a change of the input to the state, and return the resulting change of the output.

        ``body`` is the change of the input, in the layout ``plan.input``. ``sources`` maps each input column of MAX and
        MIN to its stored values, which must already include this change. If ``sources`` is None, groups that need
        stored values are returned as lost, and their output does not change. Raises RowError on overflow.
        """
        plan, k = self.plan, self.plan.input.columns
        rows, diffs = body[1 : 1 + k], body[1 + k]
        n = body.shape[1]
        first, kind = np.empty(n, dtype=np.intp), np.empty(n, dtype=np.intp)
        q = loops.number_groups(body, plan.input.key_columns, first, kind)
        groups = rows[plan.input.key_columns[:, None], first[:q]]
        if not plan.node.keys:
            # An aggregate without GROUP BY always has one row.
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
        for (fn, column), at in plan.first_extremes.items():
            source = None if sources is None else sources[column]
            found, exists, missing = self._extreme(
                fn, column, groups, old[at], there, rows, diffs, kind, source, strings
            )
            values[fn, column] = found
            lost |= missing
            alive = alive if self.accumulators is not None else exists
        floats = {c: self._float_sum(c, groups, rows, diffs, kind, strings) for c in plan.floated}
        if not plan.node.keys:
            alive = np.ones(q, dtype=bool)
        new = np.concatenate([groups, *(self._value(a, sums, values, floats)[None, :] for a in plan.node.aggs)])
        out = Delta(np.empty((len(new), 2 * q), dtype=np.int64), np.empty(2 * q, dtype=np.int64))
        m = loops.emit(new, old, there, alive, lost, *out)
        if m:
            out = Delta(out.rows[:, :m], out.diffs[:m])
            self.output.insert(out.rows, out.diffs, strings)
        return Change(out if m else nothing, groups[:, lost])

    def forget(self, groups: Words, strings: Dictionary) -> None:
        """Remove all state of the given groups, int64[g, q]."""
        for part in self.arrangements:
            _, rows, diffs = part.match(groups, strings)
            part.insert(rows, -diffs if part.layout.width > 1 else -diffs[0], strings)

    def _last(self, groups: Words, strings: Dictionary) -> tuple[Words, npt.NDArray[np.bool_]]:
        owner, rows, diffs = self.output.match(groups, strings)
        if any(batch.timed for batch in self.output.runs):
            # A merge has sorted the rows of a group, so the last one is not always the newest.
            owner, rows, weights = net(owner, rows, diffs[0], self.output.layout.types, strings)
            diffs = weights[None, :]
        old = np.empty((self.output.layout.columns, groups.shape[1]), dtype=np.int64)
        there = np.empty(groups.shape[1], dtype=bool)
        loops.last_rows(owner, rows, diffs, old, there)
        return old, there

    def _accumulate(
        self,
        groups: Words,
        rows: Words,
        diffs: npt.NDArray[np.int64],
        kind: npt.NDArray[np.intp],
        strings: Dictionary,
    ) -> npt.NDArray[np.int64]:
        assert self.accumulators is not None
        plan, q = self.plan, groups.shape[1]
        fresh, mass = np.zeros((plan.width, q), dtype=np.int64), np.zeros(q, dtype=np.int64)
        most = MAX_DIFF if plan.summed or plan.floated else ANY
        fits = loops.accumulate(rows, diffs, kind, *plan.accumulated, most, mass, fresh) >= 0
        owner, _, held = self.accumulators.match(groups, strings)
        after = fresh.copy()
        loops.add_stored(owner, held, after)
        if not fits or int(after[0].max()) >= most:
            raise RowError("a group has 2**31 rows or more, which is too many for SUM and AVG; use smaller diffs")
        self.accumulators.insert(groups, fresh, strings)
        return after

    def _float_sum(
        self,
        column: int,
        groups: Words,
        rows: Words,
        diffs: npt.NDArray[np.int64],
        kind: npt.NDArray[np.intp],
        strings: Dictionary,
    ) -> npt.NDArray[np.float64]:
        part, room = self.limbs[column], 4 * rows.shape[1]
        keys, limbs = np.empty((1 + len(groups), room), dtype=np.int64), np.empty(room, dtype=np.int64)
        m = loops.split_doubles(rows[column], diffs, kind, groups, keys, limbs)
        part.insert(keys[:, :m], limbs[:m], strings)
        owner, found, weights = part.match(groups, strings)
        low, total = int(found[-1].min(initial=0)), np.empty(groups.shape[1])
        grid = np.zeros((len(total), int(found[-1].max(initial=0)) - low + 4), dtype=np.int64)
        if loops.add_limbs(owner, found[-1], weights[0], low, grid, total) < 0:
            raise RowError("a SUM or AVG of DOUBLE exceeds 1.797e308, the largest DOUBLE; scale the values down first")
        return total

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
        strings: Dictionary,
    ) -> tuple[Words, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return, for each group, its new MAX or MIN, whether the group exists, and whether the value is unknown."""
        kind_of, least = self.plan.input.types[column], fn == "min"
        best, exists, unsure = new_extremes(was, there, rows[column], (diffs, kind), kind_of, least, strings)
        if source is None or not unsure.any():
            return best, exists, unsure
        ask = np.flatnonzero(unsure)
        best[ask], exists[ask] = source.extremes(groups.take(ask, axis=1), least, strings)
        return best, exists, np.zeros(len(best), dtype=bool)

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
        at, mean = 1 + plan.counted.index(agg.arg), agg.fn == "avg"
        if agg.fn == "count":
            return np.asarray(sums[at])
        if agg.arg in plan.floated:
            total = floats[agg.arg] / np.maximum(sums[at], 1) if mean else floats[agg.arg]
            return from_doubles(np.where(sums[at] > 0, total, np.nan))
        out = np.empty(sums.shape[1], dtype=np.int64)
        if loops.whole_sums(sums, at, 1 + len(plan.counted) + 2 * plan.summed.index(agg.arg), mean, out) < 0:
            raise RowError("a SUM exceeds the range of BIGINT (64 bits); CAST its argument AS DOUBLE")
        return out
