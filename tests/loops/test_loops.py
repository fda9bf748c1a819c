"""Every loop gives the same result in Python, compiled, and compiled with every index checked.

What the results should be is tested where loops are called, against bags and Python values: tests/storage and
tests/kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import examples

from sharedstate_lite.loops import compiled

NULL = -(2**63)
ALL = np.uint64(2**64 - 1)
MASKS = [ALL, np.uint64((1 << 63) | 1), np.uint64(0)]
WORDS = [NULL, NULL + 1, -7, -1, 0, 1, 2, 3, 5, 2**40, 2**53 + 1, 2**63 - 1]
word = st.sampled_from(WORDS)
small = st.integers(0, 4)
diff = st.sampled_from([-3, -1, 0, 1, 2])


@pytest.fixture(scope="module")
def ways() -> list[Any]:
    """The loops in Python, compiled, and compiled with checked indexes."""
    pytest.importorskip("numba", reason="without Numba, loops run in one way only")
    made = [compiled.in_python(), dict(compiled.compile_loops()), dict(compiled.compile_loops(bounds=True))]
    return [SimpleNamespace(**loops) for loops in made]


def agree(ways: list[Any], run: Callable[[Any], tuple[Any, ...]]) -> tuple[Any, ...]:
    """Run the same calls in each way, check that the results are equal, and return them as lists."""
    found = [tuple(np.asarray(part).tolist() for part in run(loops)) for loops in ways]
    assert found[1:] == found[:1] * (len(ways) - 1)
    return found[0]


def array(*shape: int, of: Any = np.int64) -> Any:
    """A buffer of zeros, so that parts that no loop writes are equal."""
    return np.zeros(shape, dtype=of)


def matrix(rows: list[Any], columns: int) -> Any:
    """Rows as int64[columns, n]."""
    return np.array(rows, dtype=np.int64).reshape(len(rows), columns).T.copy()


rows = st.lists(st.tuples(word, small, word, diff), max_size=14)
"""Rows of a number, the code of a string, a double, and a diff."""
KINDS = np.array([0, 1, 2])
KNOWN = np.array([[0] * 8, [-1, 1, NULL, 77, 0, 0, 0, 0], [9, 0, 9, 2**32 - 1, 5, 0, 0, 0]])
"""Hashes and first bytes of strings, by code."""


def made_body(loops: Any, given_: list[Any], key: list[int], order: int, mask: Any) -> Any:
    """A body with room for all rows, and how many it has."""
    lines = matrix(given_, 4)
    out = array(5, len(given_))
    unsorted = array(5, len(given_))
    columns = np.array(key, dtype=np.int64), np.arange(3)
    loops.add_words(lines[:3], lines[3:], *columns, KINDS, order, KNOWN, mask, unsorted)
    count = loops.consolidate(unsorted, unsorted[0].argsort(), 3, 1, out, 0)
    out[:, count:] = 0
    return out, count


keys = st.sampled_from([[0], [1], [2, 0], []])
orders = st.sampled_from([-1, 0, 1, 2])
masks = st.sampled_from(MASKS)


def test_hashes_and_order_codes(ways: list[Any]) -> None:
    """Hashes of rows and order codes of values are equal to the last bit."""

    @examples(30)
    @given(rows, keys, masks)
    def run(given_: list[Any], key: list[int], mask: Any) -> None:
        lines, columns = matrix(given_, 4), np.array(key, dtype=np.int64)

        def calls(loops: Any) -> tuple[Any, ...]:
            hashes, codes = array(len(given_)), array(3, len(given_), of=np.uint64)
            loops.hash_rows(lines[:3], columns, KINDS, KNOWN, mask, hashes)
            for kind in range(3):
                loops.order_codes(np.ascontiguousarray(lines[kind]), kind, KNOWN, codes[kind])
            return hashes, codes

        agree(ways, calls)

    run()


def test_bodies_are_equal_and_sorted(ways: list[Any]) -> None:
    """A body is sorted by word, and rows with equal words by their columns, from the last one on."""

    @examples(50)
    @given(rows, keys, orders, masks)
    def run(given_: list[Any], key: list[int], order: int, mask: Any) -> None:
        body, count = agree(ways, lambda loops: made_body(loops, given_, key, order, mask))
        lines = [(line[0], *line[3:0:-1]) for line in zip(*body, strict=True)][:count]
        assert lines == sorted(set(lines))

    run()


@examples(40)
@given(st.lists(word | st.integers(-300, 300), max_size=20), st.booleans())
def test_words_are_sorted(ways: list[Any], words: list[int], shifted: bool) -> None:
    """Words are sorted as numbers, and equal ones stay in their order."""
    given_ = np.array(words, dtype=np.int64) << (32 * shifted)

    def calls(loops: Any) -> tuple[Any, ...]:
        order = array(len(words))
        return loops.sort_words(given_, array(8, 256), order, array(len(words))), order

    _, order = agree(ways, calls)
    assert order == given_.argsort(kind="stable").tolist()


def test_a_block_of_any_size_is_sorted(ways: list[Any]) -> None:
    """Many rows with one sort word and few values are sorted and added up, also after rows that are there already."""
    draw = np.random.default_rng(3)
    for n in (1, 2, 40, 300):
        body = np.zeros((4, n), dtype=np.int64)
        body[1:3], body[3] = draw.integers(0, 9, (2, n)), 1

        def calls(loops: Any, body: Any = body, n: int = n) -> tuple[Any, ...]:
            out = array(4, n + 2)
            return loops.consolidate(body, draw.permutation(n), 2, 1, out, 2), out

        count, out = agree(ways, calls)
        assert sum(out[3]) == n
        assert len(set(zip(out[1][2:count], out[2][2:count], strict=True))) == count - 2


def test_lookups(ways: list[Any]) -> None:
    """Ranges, matches and multiplicities of keys and rows, in any order and as of a time."""

    @examples(50)
    @given(rows, st.lists(word, max_size=6), masks, st.integers(0, 2), st.data(), rows)
    def run(given_: list[Any], asked: list[int], mask: Any, time: int, data: st.DataObject, others: list[Any]) -> None:
        room, most, least = data.draw(st.tuples(st.integers(0, 40), st.sampled_from([1, 2, 2**62]), st.booleans()))
        wanted = np.array([asked], dtype=np.int64).reshape(1, len(asked))
        zero, number = np.array([0]), np.array([0])

        def calls(loops: Any) -> tuple[Any, ...]:
            body, n = made_body(loops, given_, [0], -1, mask)
            timed = np.concatenate([body, np.arange(body.shape[1])[None, :] % 3])
            hashes, count = array(len(asked)), array(1)
            loops.hash_rows(wanted, zero, number, KNOWN, mask, hashes)
            words = hashes & ~0xFFFFFFFF
            owner, out = array(room), array(5, room)
            edge = np.full(len(asked), -1)
            how = 5, time, most, least, edge, 0
            end = loops.look_up(timed, n, words, 0xFFFFFFFF, wanted, zero, *how, count, owner, out)
            other, _ = made_body(loops, others, [0], -1, mask)
            have = array(other.shape[1])
            return end, count, owner, out, edge, body[0, :n], loops.stored(body, n, other, 3, have), have

        end, (count,), owner, out, edge, *_ = agree(ways, calls)
        assert [out[1][at] for at in range(count)] == [asked[owner[at]] for at in range(count)]
        assert end == len(asked) or (end < 0 and count <= room)

    run()


wide = st.sampled_from([0, 1, -2, 2**31, -(2**31), 2**61])


def test_joins(ways: list[Any]) -> None:
    """Rows that are equal in two columns are joined, as of a time; the rest waits where there is no room."""
    stored = st.lists(st.tuples(word, small, word, wide), max_size=14)

    @examples(60)
    @given(stored, rows, masks, st.integers(0, 2), st.integers(0, 20), st.booleans(), st.data())
    def run(given_: list[Any], others: list[Any], mask: Any, time: int, room: int, last: bool, data: Any) -> None:
        timed, first = data.draw(st.booleans()), data.draw(st.integers(0, len(others)))
        change = matrix(others, 4)
        equal = np.array([[0, 1], [0, 1]])

        def calls(loops: Any) -> tuple[Any, ...]:
            body, n = made_body(loops, given_, [0], -1, mask)
            batch = np.concatenate([body, np.arange(body.shape[1])[None, :] % 3])[: 5 + timed]
            wanted, count, out = array(len(others)), array(2), array(7, room)
            loops.hash_rows(change[:1], np.array([0]), np.array([0]), KNOWN, mask, wanted)
            how = equal, 5 * timed, time, 2.0**62, last, first
            end = loops.join(batch, n, wanted, change[:3], change[3], *how, count, out)
            return end, count, out, batch[:, :n]

        end, (count, wide_), out, batch = agree(ways, calls)
        stop = end if end >= 0 else -1 - end
        sides = [(a[:3], b[1:4], a[3], b[4]) for a in others[first:stop] for b in map(tuple, zip(*batch, strict=True))
                 if a[:2] == b[1:3] and a[0] != NULL and (not timed or b[5] <= time)]  # fmt: skip
        joined = [(*(b + a if last else a + b), np.int64(m) * np.int64(n)) for a, b, m, n in sides]
        assert sorted(zip(*(line[:count] for line in out), strict=True)) == sorted(joined)
        assert wide_ >= sum(abs(m * n) >= 2**62 for *_, m, n in sides)
        assert stop == len(others) or (end < 0 and count <= room)

    run()


def test_groups(ways: list[Any]) -> None:
    """Groups, last rows and what is emitted."""
    flag = st.booleans()
    group = st.tuples(word, word, word, flag, flag, flag)

    @examples(50)
    @given(rows, masks, st.lists(group, min_size=1, max_size=5), st.data())
    def run(given_: list[Any], mask: Any, groups: list[Any], data: st.DataObject) -> None:
        q = len(groups)
        owners = st.lists(st.tuples(st.integers(0, q - 1), word, word, diff), max_size=12)
        matches = matrix(data.draw(owners), 4)
        values = matrix([g[:3] for g in groups], 3)
        there, alive, lost = (np.array([g[at] for g in groups], dtype=bool) for at in (3, 4, 5))

        def calls(loops: Any) -> tuple[Any, ...]:
            body, n = made_body(loops, given_, [0], -1, mask)
            first, number = array(n), array(n)
            count = loops.number_groups(np.ascontiguousarray(body[:, :n]), np.array([0]), first, number)
            last, has = array(2, q), array(q, of=bool)
            loops.last_rows(matches[0], matches[1:3], matches[3:], last, has)
            out, diffs = array(3, 2 * q), array(2 * q)
            emitted = loops.emit(values, values[::-1].copy(), there, alive, lost, out, diffs)
            return count, first, number, last, has, emitted, out, diffs

        found = agree(ways, calls)
        assert found[0] == len(set(found[2]))

    run()


def test_extremes(ways: list[Any]) -> None:
    """The best values of groups, after a change and of stored rows, with ranks in either order."""

    @examples(80)
    @given(st.booleans(), st.data())
    def run(least: bool, data: Any) -> None:
        change = matrix(data.draw(st.lists(st.tuples(st.integers(0, 2), word, diff), max_size=12)), 3)
        old = np.array(data.draw(st.lists(word, min_size=3, max_size=3)))
        there = old != NULL
        edge = np.array(data.draw(st.lists(st.sampled_from([-1, 0, 1, 2**31, 2**32]), min_size=3, max_size=3)))
        ranks, old_ranks = (-each if least else each for each in (change[1], old))

        def calls(loops: Any) -> tuple[Any, ...]:
            after = array(3), array(3), array(3, of=bool), array(3, of=bool)
            loops.extremes_after(ranks, change[1], change[2], old_ranks, old, change[0], there, *after)
            found, ends, order = (array(3), array(3, of=bool), array(3, of=bool)), array(3), array(len(ranks))
            how = edge, ends, order, 0, least, KNOWN
            count = loops.best_values(change[0], ranks, change[1], change[2], *how, *found)
            codes = array(3, of=np.uint64)
            loops.order_codes(found[0], 0, KNOWN, codes)
            return *after[1:], *found, count, codes

        new, exists, unsure, best, live, beyond, count, codes = agree(ways, calls)

        def rank(value: int) -> tuple[bool, int]:
            return value != NULL, -value if least else value

        for group in range(3):
            mine = [(what, some) for g, what, some in change.T.tolist() if g == group]
            total = {what: sum(some for other, some in mine if other == what) for what, _ in mine}
            left = [what for what in total if total[what] > 0]
            assert live[group] == bool(left) and best[group] == max(left, key=rank, default=NULL)
            better = codes[group] < edge[group] if least else codes[group] > edge[group]
            assert beyond[group] == (edge[group] != -1 and not (better and best[group] != NULL))
            plus = [what for what, some in mine if some > 0]
            assert new[group] == max([int(old[group]), *plus], key=rank)
            assert exists[group] == bool(there[group] or plus)
            good = [some > 0 for what, some in mine if rank(what) >= rank(int(old[group]))]
            assert unsure[group] == (bool(good) and not any(good))
        assert count == sum(beyond)

    run()


@examples(30)
@given(st.lists(small, max_size=12), st.integers(1, 3), st.booleans())
def test_the_best_rows_of_a_key_are_read(ways: list[Any], codes: list[int], most: int, least: bool) -> None:
    """Of each key, the first or last rows are read, and its edge is the best code of the others."""
    words = np.sort(np.array([(key << 32) + code for key in (1, 3) for code in codes], dtype=np.int64))
    batch = np.stack([words, words >> 32])
    keys = np.array([[3, 2, 1]])

    def calls(loops: Any) -> tuple[Any, ...]:
        edge, count, owner, out = np.full(3, -1), array(1), array(40), array(2, 40)
        how = 0, 0, most, least, edge, 0
        loops.look_up(batch, len(words), keys[0] << 32, 0xFFFFFFFF, keys, np.array([0]), *how, count, owner, out)
        return count, edge, owner, out

    (count,), edge, owner, out = agree(ways, calls)
    ranked = sorted(codes, reverse=not least)
    read, left = sorted(ranked[:most]), ranked[most:]
    assert count == 2 * len(read) and [word & 0xFFFFFFFF for word in out[0][:count]] == read * 2
    assert edge == [left[0] if left else -1, -1, left[0] if left else -1]


@examples(50)
@given(st.lists(st.tuples(small, word, small, diff), max_size=12), st.sampled_from([3, 2**31]), st.booleans())
def test_sums(ways: list[Any], given_: list[Any], limit: int, mean: bool) -> None:
    """Counts, and sums of whole numbers in two halves, until the mass of a group is too large."""
    lines = matrix(given_, 4)

    def calls(loops: Any) -> tuple[Any, ...]:
        mass, sums, out = array(5), array(5, 5), array(5)
        counted = np.array([1, 2])
        end = loops.accumulate(lines[:3], lines[3], lines[0], counted, counted[:1], limit, mass, sums)
        found = sums.copy()
        loops.add_stored(lines[0], sums[:, lines[0]], sums)
        return end, found, sums, loops.whole_sums(found, 1, 3, mean, out), out

    end, found, _, fits, out = agree(ways, calls)
    if end >= 0:
        for g in range(5):
            values = [(w, d) for who, w, _, d in given_ if who == g and w != NULL]
            total, count = sum(w * d for w, d in values), sum(d for _, d in values)
            assert (found[0][g], found[1][g]) == (sum(d for who, *_, d in given_ if who == g), count)
            if not mean and fits >= 0:
                assert out[g] == (total if count > 0 else NULL)
    assert end == len(given_) or sum(abs(d) for who, *_, d in given_[:-end] if who == given_[-1 - end][0]) >= limit


finite = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([5e-324, -(2.0**-1022), 1.5, 1e308])


@examples(50)
@given(st.lists(st.tuples(small, finite, diff), max_size=10))
def test_limbs(ways: list[Any], given_: list[Any]) -> None:
    """The limbs of doubles add up to them, and a sum of limbs is rounded to a double."""
    owner = np.array([g for g, *_ in given_], dtype=np.int64)
    words = (np.array([x for _, x, _ in given_], dtype=np.float64) + 0.0).view(np.int64)
    diffs, groups = np.array([d for *_, d in given_], dtype=np.int64), np.arange(5)[None, :]

    def calls(loops: Any) -> tuple[Any, ...]:
        rows, limbs = array(2, 4 * len(given_)), array(4 * len(given_))
        m = loops.split_doubles(words, diffs, owner, groups, rows, limbs)
        low, high = int(rows[1].min(initial=0)), int(rows[1].max(initial=0))
        grid, out = array(5, high - low + 4), array(5, of=np.float64)
        return m, rows, limbs, loops.add_limbs(rows[0, :m].copy(), rows[1, :m], limbs[:m], low, grid, out), grid, out

    m, rows, limbs, end, _, out = agree(ways, calls)
    for g in range(5):
        exact = sum((Fraction(x) * d for who, x, d in given_ if who == g), Fraction(0))
        parts = zip(rows[0][:m], rows[1][:m], limbs[:m], strict=True)
        assert sum((Fraction(2) ** (24 * w) * n for who, w, n in parts if who == g), Fraction(0)) == exact
        if end >= 0:
            assert abs(Fraction(out[g]) - exact) <= Fraction(math.ulp(out[g]))
        if end == -1 - g:
            assert abs(exact) > 2**1023


@examples(50)
@given(st.lists(st.tuples(small, small), max_size=14), st.lists(st.tuples(small, small), max_size=8), masks)
def test_distinct_rows_and_sets_of_keys(ways: list[Any], some: list[Any], more: list[Any], mask: Any) -> None:
    """Distinct rows are numbered, and a set of keys grows by those that it does not have, also if hashes are equal."""
    first, second = matrix(some, 2), matrix(more, 2)

    def calls(loops: Any) -> tuple[Any, ...]:
        def words_of(rows: Any) -> Any:
            out = array(rows.shape[1])
            loops.hash_rows(rows, np.arange(2), np.zeros(2, dtype=np.int64), KNOWN, mask, out)
            return out

        def grown(keys: Any, words: Any, used: Any, fresh: Any, now: int) -> Any:
            asked, most = words_of(fresh), len(words) + fresh.shape[1]
            out = array(2, most), array(most), array(most)
            count = loops.add_keys(keys, words, used, fresh, asked, asked.argsort(kind="stable"), now, *out)
            return out[0][:, :count].copy(), out[1][:count].copy(), out[2][:count].copy()

        words, picked, number = words_of(first), array(len(some)), array(len(some))
        count = loops.number_rows(first, words, words.argsort(kind="stable"), picked, number)
        one = grown(array(2, 0), array(0), array(0), first, 7)
        two = grown(*one, second, 9)
        at = array(len(more))
        found = loops.find_keys(one[0], one[1], second, words_of(second), at)
        return count, picked, number, *one, *two, found, at

    count, picked, number, keys, words, used, both, _, uses, found, at = agree(ways, calls)
    assert count == len(set(some)) and [some[picked[n]] for n in number] == some
    pairs = list(zip(*keys, strict=True))
    assert sorted(pairs) == sorted(set(some)) and words == sorted(words) and set(used) <= {7}
    assert [pairs[n] if n >= 0 else None for n in at] == [pair if pair in pairs else None for pair in more]
    assert found == sum(n >= 0 for n in at)
    last = dict(zip(zip(*both, strict=True), uses, strict=True))
    assert last == dict.fromkeys(more, 9) | dict.fromkeys(some, 7) and len(uses) == len(last)


@examples(40)
@given(st.lists(st.text("ab\0é", max_size=18), max_size=12), st.integers(0, 12), st.sampled_from([ALL, np.uint64(0)]))
def test_strings(ways: list[Any], texts: list[str], room: int, mask: Any) -> None:
    """Packed strings, the table that they are put into, their codes, their order, and their removal."""
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)])
    data = np.frombuffer(b"".join(encoded) + b"\xff", dtype=np.uint8)

    def calls(loops: Any) -> tuple[Any, ...]:
        n, count = len(texts), array(1)
        packed, out = array(n, 2, of=np.uint64), array(n)
        table, known, bytes_ = array(32, 3, of=np.uint64), array(3, room + 1), array(400, of=np.uint8)
        loops.pack(offsets, data, packed)
        state = table, known, bytes_
        loops.find_codes(packed, offsets, data, *state, mask, out)
        row = loops.add_strings(packed, offsets, data, 0, *state, count, mask, out)
        length, again = int(count[0]), array(n)
        missing = loops.find_codes(packed, offsets, data, *state, mask, again)
        codes = np.append(np.arange(length)[::-1], [NULL, *range(length)])
        order = known[2].view(np.uint64).take(codes, mode="clip").argsort()
        ranks, kinds = array(len(codes)), array(len(codes))
        ranked = loops.rank_texts(codes, order, known, bytes_, ranks, kinds)
        within = loops.starts_within(known[0], bytes_, 0, length)
        ends = array(n + 1)
        nulls = loops.measure(again, known, ends)
        copied = array(ends[-1], of=np.uint8)
        loops.copy_texts(again, known, bytes_, ends, copied)
        full, own = table.copy(), array(length, 2, of=np.uint64)
        loops.pack(known[0, : length + 1], bytes_, own)
        filled = array(32, 3, of=np.uint64)
        loops.fill(own, filled, mask)
        loops.remove(own[length // 2 :], table, count, mask)
        half = array(32, 3, of=np.uint64)
        loops.fill(own[: length // 2], half, mask)
        assert np.array_equal(filled, full) and np.array_equal(half, table)
        return (
            row,
            length,
            again,
            copied,
            ranked,
            ranks,
            kinds,
            within,
            out,
            missing,
            nulls,
            table,
            known,
            bytes_,
            count,
        )

    row, length, again, copied, ranked, ranks, order, within, *_ = agree(ways, calls)
    kinds = list(dict.fromkeys(texts))
    assert length == min(room, len(kinds)) and row == (
        len(texts) if len(kinds) <= room else -1 - texts.index(kinds[room])
    )
    assert again == [kinds.index(text) if kinds.index(text) < length else -1 for text in texts]
    assert [kinds[code] for code in order[:ranked]] == sorted(kinds[:length]) and within == -1
    assert ranks[length + 1 :] == ranks[:length][::-1] == [sorted(kinds[:length]).index(t) for t in kinds[:length]]
    assert bytes(copied) == b"".join(text.encode() for text in texts if text in kinds[:length])


@examples(40)
@given(st.lists(word, max_size=8), small, small)
def test_words_out_of_range(ways: list[Any], words: list[int], low: int, high: int) -> None:
    """The first word out of range."""
    (at,) = agree(ways, lambda loops: (loops.outside(np.array(words, dtype=np.int64), low, high, 3),))
    bad = [n for n, w in enumerate(words) if not low <= w <= high or w == 3]
    assert at == (bad[0] if bad else -1)


def test_an_index_past_the_end_is_seen(ways: list[Any]) -> None:
    """Checked loops raise IndexError, so a result from them has read and written inside the buffers only."""
    with pytest.raises(IndexError):
        ways[2].lower(np.array([1, 2]), 0, 9, 5)


def test_loops_are_short_and_have_one_signature() -> None:
    """No loop has more than 60 lines, and each has one form, which writes to buffers that it receives."""
    for name, (function, signature) in compiled.functions().items():
        assert signature.count("(") == 1, name
        code = function.__code__
        assert max(line for _, _, line in code.co_lines() if line) - code.co_firstlineno <= 60, name
        assert "empty" not in code.co_names and "zeros" not in code.co_names, name
