"""The index numbers values as a dict would, and the LRU table keeps rows as an OrderedDict would."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedstate_lite.errors import Error
from sharedstate_lite.worker.runtime.index import Index
from sharedstate_lite.worker.runtime.lru import LRUTable

INTEGERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-20, 20)
BATCHES = st.lists(st.lists(INTEGERS, unique=True, max_size=40), max_size=12)
TEXTS = st.lists(st.lists(st.text(max_size=3), unique=True, max_size=20), max_size=8)


def column(values: list[int] | list[str], kind: pa.DataType) -> pa.ChunkedArray:
    """Values as a column."""
    return pa.chunked_array([pa.array(values, kind)])


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()], ids=str)
@given(data=st.data())
def test_numbers_are_a_dicts(kind: pa.DataType, data: st.DataObject) -> None:
    """A value keeps its number; new values get the next numbers in the batch's order, and are reported as new."""
    index, oracle = Index("index"), dict[object, int]()
    for batch in data.draw(BATCHES if kind == pa.int64() else TEXTS):
        before = [oracle.get(value, -1) for value in batch]
        assert index.find(column(batch, kind)).tolist() == before
        numbers, fresh = index.add(column(batch, kind))
        assert fresh.tolist() == [number < 0 for number in before]
        oracle.update(zip(batch, numbers.tolist(), strict=True))
        assert numbers[fresh].tolist() == list(range(index.count - int(fresh.sum()), index.count))
        assert sorted(oracle.values()) == list(range(index.count))
    everything = list(oracle)
    assert index.find(column(everything, kind)).tolist() == list(oracle.values())


def test_numbers_stay_when_the_table_grows() -> None:
    """100,000 colliding values keep their numbers when the table grows."""
    index = Index("index")
    values = (np.arange(100_000, dtype=np.int64) << 20) - 5
    numbers = np.concatenate([index.add(column(part, pa.int64()))[0] for part in np.array_split(values, 17)])
    assert (index.find(column(values, pa.int64())) == numbers).all()
    assert len(np.unique(numbers)) == 100_000


def test_an_index_of_some_numbers_them_in_their_order() -> None:
    """keep() numbers the kept values from 0 in the given order."""
    index = Index("index")
    values = np.random.default_rng(3).permutation(5_000) << 20
    index.add(column(values, pa.int64()))
    some = np.arange(4_999, 0, -7)
    kept = index.keep(some)
    assert kept.find(column(values[some], pa.int64())).tolist() == list(range(len(some)))


def test_a_batch_of_another_type_is_refused() -> None:
    """An index of integers refuses strings."""
    index = Index("ConcurrentSet 7")
    index.add(column([1], pa.int64()))
    with pytest.raises(Error, match="ConcurrentSet 7: its values have the type int64, but the new values have string"):
        index.add(column(["1"], pa.string()))


STEPS = st.lists(
    st.tuples(st.booleans(), st.lists(st.integers(0, 12), unique=True, min_size=1, max_size=6)), max_size=60
)


@given(st.integers(1, 8), STEPS)
def test_rows_are_kept_as_an_lru_keeps_them(capacity: int, steps: list[tuple[bool, list[int]]]) -> None:
    """For any reads and writes, the rows and the evictions are those of an OrderedDict."""
    rows, oracle = LRUTable("cache", capacity, None), OrderedDict[int, int]()
    for number, (write, keys) in enumerate(steps):
        asked = column(keys, pa.int64())
        if write:
            values = [number * 100 + key for key in keys]
            rows.put(asked, pa.table({"v": values}), 0.0)
            for key, value in zip(keys, values, strict=True):
                oracle[key] = value
                oracle.move_to_end(key)
            while len(oracle) > capacity:
                oracle.popitem(last=False)
        else:
            here, found = rows.get(asked, 0.0)
            assert here.tolist() == [key in oracle for key in keys]
            there = [key for key in keys if key in oracle]
            assert (found.column("v").to_pylist() if found else []) == [oracle[key] for key in there]
            for key in there:
                oracle.move_to_end(key)
    assert rows.count == len(oracle)


def test_evicted_rows_free_their_memory() -> None:
    """A cache of 100 rows stays below 1 MB while a million keys pass through it."""
    rows = LRUTable("cache", 100, None)
    for start in range(0, 1_000_000, 1_000):
        keys = np.arange(start, start + 1_000)
        rows.put(pa.chunked_array([keys]), pa.table({"v": keys}), 0.0)
    assert rows.count == 100 and rows.evicted == 999_900
    assert rows.nbytes < 1 << 20
    last = np.arange(999_900, 1_000_000)
    here, found = rows.get(pa.chunked_array([last]), 0.0)
    assert here.all() and found is not None and found.column("v").to_pylist() == last.tolist()


def test_rows_keep_their_keys_through_rewrites() -> None:
    """Through 300 batches that exceed the capacity, no key gets another key's row."""
    rows, draw, met = LRUTable("cache", 300, None), np.random.default_rng(1), 0
    for _ in range(300):
        keys = np.unique(draw.exponential(500, size=1_000).astype(np.int64))
        draw.shuffle(keys)
        here, found = rows.get(pa.chunked_array([keys]), 0.0)
        assert (found.column("v").to_pylist() if found else []) == keys[here].tolist()
        rows.put(pa.chunked_array([keys[~here]]), pa.table({"v": keys[~here]}), 0.0)
        met += int(here.sum())
    assert met > 10_000


def test_no_row_is_older_than_the_bound() -> None:
    """A row is returned until ttl seconds after its load began, and not later."""
    rows = LRUTable("cache", 10, ttl=2.0)
    rows.put(column([1], pa.int64()), pa.table({"v": [1]}), since=10.0)
    rows.put(column([2], pa.int64()), pa.table({"v": [2]}), since=11.0)
    both = column([1, 2], pa.int64())
    assert [rows.get(both, now)[0].tolist() for now in (12.0, 12.5, 13.5)] == [[True, True], [False, True], [False] * 2]
