"""Predicts how many rows an operator has, and how many of them differ, from statistics of the base tables.

`Predictor.rows` gives a sample of an operator's output: at most 2,000 rows, each with a weight, which is the number of
rows that it stands for. A join looks the rows of one side's sample up in the whole table of the other side, and gives
the most frequent keys their exact weight. `Predictor.count` predicts the number of distinct values of some columns. N
rows over D equally likely values have D (1 - (1 - 1/D)^N) of them; frequent values are treated apart. D is the product
of the columns' distinct values. If the sample has fewer distinct rows than this product gives, the columns correlate,
and D is that of the sample.

A prediction is a `Guess` with its doubts: for each cause, by which factor this guess may be wrong.

Source: Cardenas, Analysis and performance of inverted data base structures, CACM 1975 (the formula); Chaudhuri, Motwani
and Narasayya, On random sampling over joins, SIGMOD 1999; Haas et al., VLDB 1995 (D from a sample).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import loops
from ..kernels import ReduceState, evaluate
from ..plan.lineage import copied_from
from ..plan.nodes import Col, Filter, Join, Map, Node, Reduce, Scan, Type, Union
from ..storage.batch import distinct, hash_rows
from ..storage.encoding import NULL, Dictionary, Words
from .statistics import SAMPLE, ColumnStatistics, Statistics

SKEW, CORRELATION, DISTINCT, FILTER, CACHE = (
    "skew",
    "correlation",
    "distinct values guessed",
    "filter sampled",
    "cache drawn",
)
HEAVY = 4
"""A value that is in so many rows of the sample counts as frequent."""
CLASSES = 64
"""Values of about the same probability are one class, and a spectrum has about so many of them."""
Floats = npt.NDArray[np.float64]
Doubts = Mapping[str, float]
Columns = tuple[int, ...]
Drawn = tuple[Columns, float]
"""The columns of a key, and the share of its values that are read."""


class Guess(NamedTuple):
    """A predicted number of rows, and for each cause the factor by which it may be wrong."""

    rows: float
    doubts: Doubts


@dataclass(frozen=True)
class Sampled:
    """A sample of an operator's rows: int64[k, m], their copies int64[m], and their weights float64[m].

    ``whole``: these are all rows. ``side`` are, for a join, the rows of the sampled side that have a partner, with the
    number of the first of its columns.
    """

    words: Words
    copies: Words
    weight: Floats
    doubts: Doubts
    whole: bool = False
    side: tuple[int, Sampled] | None = None

    @property
    def total(self) -> float:
        """The number of rows."""
        return float(self.weight.sum())

    def take(self, at: Any, **more: Any) -> Sampled:
        """Return the rows at these positions."""
        return replace(self, words=self.words[:, at], copies=self.copies[at], weight=self.weight[at], side=None, **more)


def merged(*doubts: Doubts) -> dict[str, float]:
    """Multiply the doubts of each cause."""
    out: dict[str, float] = {}
    for each in doubts:
        for cause, factor in each.items():
            out[cause] = out.get(cause, 1.0) * max(factor, 1.0)
    return out


class Spectrum(NamedTuple):
    """The values of one or several columns in classes: the probability of a value, and how many values have it."""

    chance: Floats
    values: Floats

    def distinct(self, rows: float) -> float:
        """Return how many values are expected in so many rows."""
        with np.errstate(divide="ignore"):
            return float((self.values * -np.expm1(rows * np.log1p(-np.minimum(self.chance, 1.0)))).sum())

    def times(self, other: Spectrum) -> Spectrum:
        """Return the spectrum of pairs of values that are independent."""
        chance, values = np.outer(self.chance, other.chance).ravel(), np.outer(self.values, other.values).ravel()
        there = (chance > 0) & (values > 0)
        chance, values = chance[there], values[there]
        step = np.log(chance.max() / chance.min()) / CLASSES or 1.0
        group = np.unique(np.floor(np.log(chance / chance.min()) / step), return_inverse=True)[1]
        values_of, mass = np.bincount(group, values), np.bincount(group, values * chance)
        return Spectrum((mass / values_of).astype(np.float64), values_of.astype(np.float64))


def spectrum(hits: Words, size: float | None) -> Spectrum:
    """Return the spectrum of a column from the hits of its values in a sample.

    ``size`` is the number of values that it has. If it is None, it is what the values without frequent ones suggest.
    """
    rare = hits[hits < HEAVY]
    tail = inverse(len(rare), int(rare.sum())) if size is None else max(size - (len(hits) - len(rare)), len(rare))
    chance = np.append(hits[hits >= HEAVY], rare.sum() / tail if tail else 0.0) / hits.sum()
    return Spectrum(chance, np.append(np.ones(len(hits) - len(rare)), tail))


def inverse(seen: float, rows: int) -> float:
    """Return how many equally likely values there are if ``rows`` rows have ``seen`` of them; at most 1e15."""
    low, high = max(seen, 1.0), 1e15
    for _ in range(60 if seen else 0):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if -middle * np.expm1(-rows / middle) < seen else (low, middle)
    return low if seen else 0.0


class Predictor:
    """Predicts rows from the statistics of each table, whose texts are in ``strings``."""

    def __init__(self, tables: Mapping[str, Statistics], strings: Dictionary, seed: int = 0) -> None:
        self.tables, self.strings = tables, strings
        self.random = np.random.default_rng(seed)
        self._rows: dict[Node, Sampled] = {}
        self._whole: dict[Node, Sampled] = {}

    # --- rows -------------------------------------------------------------------

    def rows(self, node: Node) -> Sampled:
        """Return a sample of the rows of an operator."""
        if node not in self._rows:
            self._rows[node] = self._thinned(self._sampled(node))
        return self._rows[node]

    def whole(self, node: Node) -> Sampled | None:
        """Return all rows of an operator if it is a table, or filters and projections of one. Otherwise, None."""
        if node not in self._whole:
            if isinstance(node, Scan):
                table = self.tables[node.relation]
                self._whole[node] = Sampled(table.words, table.copies, np.ones(table.rows), {}, True)
            elif isinstance(node, Filter | Map) and (below := self.whole(node.input)) is not None:
                self._whole[node] = self._linear(node, below)
        return self._whole.get(node)

    def _sampled(self, node: Node) -> Sampled:
        if isinstance(node, Scan):
            table = self.tables[node.relation]
            each = table.rows / max(len(table.sample), 1)
            weight = np.full(len(table.sample), each)
            return Sampled(table.words[:, table.sample], table.copies[table.sample], weight, {}, each == 1)
        if isinstance(node, Filter | Map):
            return self._linear(node, self.rows(node.input))
        if isinstance(node, Join):
            return self._join(node)
        if isinstance(node, Reduce):
            return self._reduce(node)
        parts = [self.rows(part) for part in node.inputs]
        words = np.concatenate([p.words for p in parts], axis=1)
        copies, weight = np.concatenate([p.copies for p in parts]), np.concatenate([p.weight for p in parts])
        return Sampled(words, copies, weight, merged(*(p.doubts for p in parts)), all(p.whole for p in parts))

    def _linear(self, node: Filter | Map, below: Sampled) -> Sampled:
        if isinstance(node, Map):
            lines = [np.broadcast_to(evaluate(e, below.words, self.strings), below.copies.shape) for e in node.exprs]
            return replace(below, words=np.stack(lines), side=None)
        kept = np.flatnonzero(evaluate(node.predicate, below.words, self.strings) == 1)
        sampled = not below.whole and len(kept) < len(below.copies)
        doubt = {FILTER: 1 + 2 / (len(kept) + 1) ** 0.5} if sampled else {}
        return below.take(kept, doubts=merged(below.doubts, doubt))

    def _thinned(self, rows: Sampled) -> Sampled:
        if len(rows.copies) <= SAMPLE:
            return rows
        at, times, step = self._draw(rows.weight)
        return replace(rows.take(at), weight=(times * step).astype(np.float64), whole=False)

    def _draw(self, mass: Floats) -> tuple[Words, Words, float]:
        """Draw `SAMPLE` places in proportion to their mass, evenly spread. Return the places, how often, and a step."""
        ends = mass.cumsum()
        step = float(ends[-1]) / SAMPLE
        places = np.minimum(ends.searchsorted((np.arange(SAMPLE) + self.random.random()) * step), len(ends) - 1)
        at, times = np.unique(places, return_counts=True)
        return at, times, step

    # --- joins ------------------------------------------------------------------

    def _join(self, node: Join) -> Sampled:
        right, width = self.whole(node.right), len(node.left.schema)
        if right is not None or node.outer or self.whole(node.left) is None:
            left = self._exact_keys(node.left, node.left_keys)
            return self._matched(left, right or self.rows(node.right), node.left_keys, node.right_keys, node)
        left, other = self._exact_keys(node.right, node.right_keys), self.whole(node.left)
        assert other is not None
        found = self._matched(left, other, node.right_keys, node.left_keys, node)
        words = np.concatenate([found.words[len(left.words) :], found.words[: len(left.words)]])
        return replace(found, words=words, side=None if found.side is None else (width, found.side[1]))

    def _exact_keys(self, node: Node, keys: Columns) -> Sampled:
        """Return the sample of a join's input. Rows of a table with a frequent key get the exact weight of that key."""
        rows = self.rows(node)
        column, at = keys[0], node
        while isinstance(at, Map) and (found := copied_from(at, column)):
            at, column = at.input, found[0][1]
        if rows.whole or len(keys) > 1 or not isinstance(at, Scan):
            return rows
        table = self.tables[at.relation]
        known, words, weight = table.columns[column], rows.words[keys[0]], rows.weight.copy()
        frequent = known.frequent[known.counts >= HEAVY * table.rows / SAMPLE]
        place = {word: i for i, word in enumerate(frequent.tolist())}
        of = np.array([place.get(word, len(place)) for word in words.tolist()], dtype=np.int64)
        hits = np.bincount(of, minlength=len(place) + 1)
        exact = known.counts[: len(place)][hits[:-1] > 0].sum()
        amounts = np.append(known.counts[: len(place)], table.rows - exact)
        return replace(rows, weight=np.where(hits[of] > 0, amounts[of] / np.maximum(hits[of], 1), weight))

    def _matched(self, a: Sampled, b: Sampled, a_keys: Columns, b_keys: Columns, node: Join) -> Sampled:
        """Join sampled rows ``a`` with ``b``, which is a whole table or a sample itself. Their columns come first."""
        m = len(a.copies)
        types = tuple(node.left.schema[i].type for i in node.left_keys)
        both = np.concatenate([a.words[list(a_keys)], b.words[list(b_keys)]], axis=1)
        number = distinct(both, types, self.strings)[1]
        there = np.flatnonzero((b.words[list(b_keys)] != NULL).all(axis=0))
        order = there[number[m:][there].argsort(kind="stable")]
        low = number[m:][order].searchsorted(number[:m])
        fan = number[m:][order].searchsorted(number[:m], side="right") - low
        pairs = np.maximum(fan, 1) if node.outer else fan
        weight = a.weight * np.where(fan > 0, float(b.weight.mean()) if len(b.weight) else 1.0, 1.0)
        mass = weight * pairs
        doubts = merged(a.doubts, b.doubts)
        whole = a.whole and b.whole
        if not a.whole and mass.sum():
            doubts = merged(doubts, {SKEW: 1 + 2 * float(mass.std() / mass.mean()) / m**0.5})
        if pairs.sum() <= SAMPLE:
            who = np.repeat(np.arange(m), pairs)
            nth, got = np.arange(len(who)) - np.repeat(pairs.cumsum() - pairs, pairs), weight[who]
        else:
            who, nth, got = self._pairs(mass, weight, pairs)
            whole = False
        words = np.full((len(a.words) + len(b.words), len(who)), NULL, dtype=np.int64)
        words[: len(a.words)] = a.words[:, who]
        copies, hit = a.copies[who], fan[who] > 0
        partner = order[low[who[hit]] + nth[hit]]
        words[len(a.words) :, hit] = b.words[:, partner]
        copies[hit] *= b.copies[partner]
        return Sampled(words, copies, got, doubts, whole, (0, a.take(np.flatnonzero(pairs > 0))))

    def _pairs(self, mass: Floats, weight: Floats, pairs: Words) -> tuple[Words, Words, Floats]:
        """Draw pairs of rows, evenly spread over all of them: the row, the number of its partner, and the weight."""
        ends = mass.cumsum()
        step = ends[-1] / SAMPLE
        at = (np.arange(SAMPLE) + self.random.random()) * step
        who = np.minimum(ends.searchsorted(at, side="right"), len(ends) - 1)
        nth = ((at - ends[who] + mass[who]) / weight[who]).astype(np.int64).clip(0, pairs[who] - 1)
        drawn, times = np.unique(np.stack([who, nth]), axis=1, return_counts=True)
        return drawn[0], drawn[1], times * step

    # --- groups -----------------------------------------------------------------

    def _reduce(self, node: Reduce) -> Sampled:
        below, whole = self.rows(node.input), self.whole(node.input)
        groups = self.count(node.input, node.keys)
        words, diffs = below.words, np.maximum(np.rint(below.copies * below.weight), 1).astype(np.int64)
        exact = whole is not None and not below.whole
        if whole is not None and exact:
            mine = np.isin(*self._numbered(whole.words, below.words, node.keys, node))
            words, diffs = whole.words[:, mine], whole.copies[mine]
        state = ReduceState(node, "price", 1)
        out = state.reduce_core(state.plan.input.body(words, diffs, self.strings), None, self.strings).delta.rows
        weight = np.ones(out.shape[1])
        if whole is not None and exact:
            # A group is in the sample with a chance that grows with its rows.
            at, rows = self._numbered(out, words, node.keys, node)
            weight = 1 / -np.expm1(np.bincount(rows)[at] * np.log1p(-min(len(below.copies) / whole.total, 0.999)))
        if node.keys:
            weight *= groups.rows / max(weight.sum(), 1e-9)
        return Sampled(out, np.ones(len(weight), dtype=np.int64), weight, groups.doubts, below.whole)

    def _numbered(self, one: Words, other: Words, keys: Columns, node: Reduce) -> tuple[Words, Words]:
        """Number the groups of two sets of rows alike. ``one`` may be groups, whose columns begin with the keys."""
        mine = one[: len(keys)] if one.shape[0] != len(node.input.schema) else one[list(keys)]
        types = tuple(node.input.schema[i].type for i in keys)
        number = distinct(np.concatenate([mine, other[list(keys)]], axis=1), types, self.strings)[1]
        return number[: mine.shape[1]], number[mine.shape[1] :]

    def count(self, node: Node, columns: Columns, drawn: Drawn | None = None) -> Guess:
        """Predict the number of distinct values of some columns of an operator, in the rows with a ``drawn`` key."""
        columns = tuple(dict.fromkeys(columns))
        rows = self.rows(node) if drawn is None else self.drawn(node, *drawn)
        if not columns or not len(rows.copies):
            return Guess(float(min(len(rows.copies), 1)), rows.doubts)
        if self.unique(node, frozenset(columns)):
            return Guess(rows.total, rows.doubts)
        if isinstance(node, Map) and all(isinstance(node.exprs[c], Col) for c in (*columns, *(drawn or ((),))[0])):
            through = {c: copied_from(node, c)[0][1] for c in (*columns, *(drawn or ((),))[0])}
            asked = None if drawn is None else (tuple(through[c] for c in drawn[0]), drawn[1])
            return self.count(node.input, tuple(through[c] for c in columns), asked)
        known = [self.statistics(node, c) for c in columns]
        types = tuple(node.schema[c].type for c in columns)
        if rows.side is not None and all(0 <= c - rows.side[0] < len(rows.side[1].words) for c in columns):
            first, rows = rows.side
            columns = tuple(c - first for c in columns)
        read = [drawn[1] if drawn is not None and drawn[0] == (c,) else 1.0 for c in columns]
        sizes = [None if k is None else (k.distinct + (k.nulls > 0)) * r for k, r in zip(known, read, strict=True)]
        return self._estimate(rows.words[list(columns)], types, rows, known, sizes)

    def drawn(self, node: Node, key: Columns, share: float) -> Sampled:
        """Return the rows of an operator whose key is drawn, or those of one key if none is."""
        rows, types = self.rows(node), tuple(node.schema[i].type for i in key)
        mask = drawn_keys(rows.words[list(key)], types, share, self.strings)
        if rows.whole or not key or share >= 1:
            return rows.take(np.flatnonzero(mask))
        # Of keys that are rare in the sample, most are not in it, and the share of these is drawn.
        number = distinct(rows.words[list(key)], types, self.strings)[1]
        rare = np.bincount(number)[number] < HEAVY
        scale = share * rows.weight[rare].sum() / max(rows.weight[rare & mask].sum(), 1e-9)
        weight = np.where(rare, rows.weight * scale, rows.weight)
        doubts = merged(rows.doubts, {CACHE: 1 + 2 / (int(mask.sum()) + 1) ** 0.5})
        return replace(rows, weight=weight).take(np.flatnonzero(mask), doubts=doubts)

    def _estimate(
        self,
        words: Words,
        types: tuple[Type, ...],
        rows: Sampled,
        known: Sequence[ColumnStatistics | None],
        sizes: Sequence[float | None],
    ) -> Guess:
        """Predict the distinct rows of sampled columns int64[k, m].

        ``known`` has the statistics of each column, or None, and ``sizes`` how many values it has.
        """
        m, total = words.shape[1], rows.total
        hits = np.bincount(distinct(words, types, self.strings)[1])
        if rows.whole or m < 2:
            return Guess(float(len(hits)) if rows.whole else total, rows.doubts)
        alone = [np.bincount(distinct(words[[i]], (t,), self.strings)[1]) for i, t in enumerate(types)]
        parts = [spectrum(h, size) for h, size in zip(alone, sizes, strict=True)]
        product = parts[0]
        for part in parts[1:]:
            product = product.times(part)
        own, usual = spectrum(hits, None), product.distinct(m)
        alone_guess = [
            part.distinct(total) if k is None or size is None else self._kept_values(k, size, total)
            for part, k, size in zip(parts, known, sizes, strict=True)
        ]
        apart = usual - len(hits) > 2 * (m - usual + 1) ** 0.5
        free = product.distinct(total) if len(types) > 1 else alone_guess[0]
        least = max(alone_guess) if len(types) > 1 else 0.0
        guess = min(max(own.distinct(total) if apart else free, least, len(hits)), total)
        rare = hits[hits < HEAVY]
        slack = len(rare) - 2 * (rare.sum() - len(rare) + 1) ** 0.5
        low = (
            len(hits)
            - len(rare)
            - inverse(max(slack, 1.0), int(rare.sum()))
            * np.expm1(-max(total * rare.sum() / m, 0) / inverse(max(slack, 1.0), int(rare.sum())))
        )
        doubt = {DISTINCT: guess / max(low, 1.0)}
        if len(types) > 1 and None not in known:
            doubt = {CORRELATION: max(free / guess, guess / max(low, least))}
        elif known[0] is not None and len(types) == 1:
            doubt = {CORRELATION: free / guess} if apart else {}
        return Guess(guess, merged(rows.doubts, doubt))

    def _kept_values(self, known: ColumnStatistics, size: float, total: float) -> float:
        """Return how many of a column's values are left in a part of its table's rows (Yao, CACM 1977).

        Of the column's values, ``size`` are looked for; the other ones are those of keys that are not drawn.
        """
        share = size / max(known.distinct + (known.nulls > 0), 1)
        lost = 1 - min(total / max(self._rows_of(known) * share, 1.0), 1.0)
        rest = known.distinct + (known.nulls > 0) - len(known.counts)
        mean = (self._rows_of(known) - known.counts.sum()) / max(rest, 1)
        return share * float((1 - lost**known.counts).sum() + rest * (1 - lost**mean))

    def _rows_of(self, known: ColumnStatistics) -> int:
        return next(t.rows for t in self.tables.values() if any(c is known for c in t.columns))

    # --- columns ----------------------------------------------------------------

    def statistics(self, node: Node, column: int) -> ColumnStatistics | None:
        """Return the statistics of the base column that a column copies, or None if it is computed."""
        while not isinstance(node, Scan):
            found = copied_from(node, column)
            if isinstance(node, Join) and node.outer and not found:
                found = ((1, column - len(node.left.schema)),)
            if len(found) != 1:
                return None
            (side, column), below = found[0], node.inputs
            node = below[side]
        return self.tables[node.relation].columns[column]

    def unique(self, node: Node, columns: frozenset[int]) -> bool:
        """Return whether all rows of an operator differ in these columns, for all that is known."""
        if isinstance(node, Scan):
            table = self.tables[node.relation]
            alone = any(table.columns[c].distinct + min(table.columns[c].nulls, 1) == table.rows for c in columns)
            return alone or len(columns) == len(node.schema)
        if isinstance(node, Filter):
            return self.unique(node.input, columns)
        if isinstance(node, Map):
            return self.unique(node.input, frozenset(found[0][1] for c in columns if (found := copied_from(node, c))))
        if isinstance(node, Reduce):
            return columns >= frozenset(range(len(node.keys)))
        if isinstance(node, Union):
            return False
        assert isinstance(node, Join)
        wide = len(node.left.schema)
        left, right = {c for c in columns if c < wide}, {c - wide for c in columns if c >= wide}
        for a, b in zip(node.left_keys, node.right_keys, strict=True):
            right |= {b} if a in left else set()
            left |= {a} if b in right and not node.outer else set()
        one = self.unique(node.left, frozenset(left))
        other = self.unique(node.right, frozenset(right))
        if one and (other or self.unique(node.right, frozenset(node.right_keys))):
            return True
        return other and not node.outer and self.unique(node.left, frozenset(node.left_keys))

    def windows(self, column: int, groups: Guess, rows: Sampled) -> Guess:
        """Predict the limbs of the exact sums of a DOUBLE column; see :mod:`..loops.sums`."""
        words = np.ascontiguousarray(rows.words[column])
        there = max(len(words), 1)
        found, limbs = np.empty((1, 4 * there), dtype=np.int64), np.empty(4 * there, dtype=np.int64)
        none = np.empty((0, 1), dtype=np.int64)
        ones, zeros = np.ones(len(words), dtype=np.int64), np.zeros(len(words), dtype=np.intp)
        count = loops.split_doubles(words, ones, zeros, none, found, limbs)
        _, hits = np.unique(found[0, :count], return_counts=True)
        each = rows.total / max(groups.rows, 1.0)
        return Guess(groups.rows * float((1 - (1 - hits / there) ** each).sum()), groups.doubts)


def drawn_keys(keys: Words, types: tuple[Type, ...], share: float, strings: Dictionary) -> npt.NDArray[np.bool_]:
    """Return which of the keys int64[k, n] a run reads, bool[n]: a share of all, by their hashes; at least one key.

    The hash depends on the values alone, so a prediction knows the keys that the run will read.
    """
    if not len(types) or share >= 1:
        return np.ones(keys.shape[1], dtype=bool)
    # A second mix: the arrangements are sorted by the hash, and samples must not depend on it.
    words = (hash_rows(keys, types, strings) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(11)
    chance = words / 2.0**53
    return chance <= max(share, float(chance.min(initial=1.0)))
