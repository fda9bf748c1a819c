"""A set that tasks add to while Spark retries some of them: no value is lost, none is new twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedstate_lite import worker as w
from sharedstate_lite.errors import Error
from sharedstate_lite.worker.handles.driver import DriverServer
from sharedstate_lite.worker.runtime.concurrent_set import ConcurrentSetState
from sharedstate_lite.worker.runtime.resource import Caller, Context

ANYBODY = Caller(1, 1)


async def nobody(*_: Any) -> Any:
    """Must not be called."""
    raise AssertionError


def members() -> ConcurrentSetState:
    """A set without a runtime."""
    return ConcurrentSetState(Context("application", "ConcurrentSet 1", nobody, lambda _: None, nobody), {})


def add(members: ConcurrentSetState, task: list[Any], values: list[int], batch: int | None = None) -> list[int]:
    """The values that are new for a task, in a streaming query if it has a ``batch``."""
    table = pa.table({"value": pa.array(values, pa.int64())})
    head = {"op": "add", "task": [*task, batch], "rows": len(values)}
    _, answer = asyncio.run(members.answer(head, table, ANYBODY))
    assert answer is not None
    return [value for value, new in zip(values, answer.column("new").to_pylist(), strict=True) if new]


VALUES = st.lists(st.integers(0, 15), unique=True, max_size=8)
RUNS = st.lists(st.tuples(st.integers(0, 3), st.booleans(), VALUES), max_size=40)


@given(RUNS)
def test_the_last_attempts_have_every_value_once(runs: list[tuple[int, bool, list[int]]]) -> None:
    """Whatever attempts fail, the last attempts of all partitions together see each value as new once.

    A partition that fails is run again from its beginning, as Spark does, while others go on.
    """
    shared = members()
    asked: dict[int, list[list[int]]] = {part: [] for part in range(4)}
    told: dict[int, list[int]] = {part: [] for part in range(4)}
    attempts = {part: part for part in range(4)}
    for number, (part, fails, values) in enumerate(runs):
        asked[part].append(values)
        told[part] += add(shared, [0, part, attempts[part], None], values)
        if fails:
            attempts[part] = 100 + number
            told[part] = []
            for batch in asked[part]:
                told[part] += add(shared, [0, part, attempts[part], None], batch)
    everything = [value for values in told.values() for value in values]
    assert sorted(everything) == sorted({value for batches in asked.values() for batch in batches for value in batch})


def test_two_attempts_at_once_both_see_new_values() -> None:
    """Both attempts of a speculative task see a value as new, once each."""
    shared = members()
    assert add(shared, [0, 0, 1, None], [1, 2]) == [1, 2]
    assert add(shared, [0, 0, 2, None], [1]) == [1]
    assert add(shared, [0, 0, 1, None], [1, 2, 3]) == [3]
    assert add(shared, [0, 0, 2, None], [1, 2, 3]) == [2, 3]
    assert add(shared, [0, 1, 3, None], [1, 2, 3, 4]) == [4]


def test_a_second_query_is_refused() -> None:
    """A second action on the same set is refused, because it would lose its rows."""
    shared = members()
    add(shared, [0, 0, 1, "4"], [1])
    with pytest.raises(
        Error, match="ConcurrentSet 1: another query has filled this set.*Use one ConcurrentSet for each"
    ):
        add(shared, [3, 0, 9, "5"], [1])


def test_two_stages_of_a_query_are_refused() -> None:
    """A second stage that adds the values of the same partition is refused; one with other partitions is not."""
    shared = members()
    assert add(shared, [0, 0, 1, "4"], [1, 2]) == [1, 2]
    assert add(shared, [0, 0, 2, "4"], [1, 2]) == [1, 2], "a retry of the partition"
    assert add(shared, [1, 1, 3, "4"], [2, 3]) == [3], "take() continues with other partitions"
    with pytest.raises(Error, match=r"partition 0 in the stages 0 and 2.*kept.localCheckpoint\(\)"):
        add(shared, [2, 0, 4, "4"], [1, 2])


def test_a_value_of_a_stream_belongs_to_its_batch() -> None:
    """A repeated micro-batch sees its values as new again, whatever its stages are; later ones do not see them."""
    shared = members()
    assert add(shared, [0, 0, 1, "s"], [1, 2], batch=0) == [1, 2]
    assert add(shared, [0, 1, 2, "s"], [2, 3], batch=0) == [3]
    for stage, attempt in ((1, 3), (2, 5)):
        assert add(shared, [stage, 0, attempt, "s"], [1, 2], batch=0) == [1, 2]
        assert add(shared, [stage, 1, attempt + 1, "s"], [2, 3], batch=0) == [3]
        assert add(shared, [stage, 1, attempt + 1, "s"], [2, 3], batch=0) == [], "twice in one attempt"
    assert add(shared, [3, 0, 7, "s"], [2, 3, 4], batch=1) == [4]
    assert add(shared, [4, 0, 8, "s"], [1, 4], batch=1) == [4]
    assert add(shared, [5, 0, 9, "s"], [4, 5], batch=5) == [5]
    assert len(shared._owners) == 1, "what Spark cannot repeat is forgotten"
    with pytest.raises(Error, match="another query has filled this set"):
        add(shared, [6, 0, 10, "another stream"], [1], batch=0)


COLUMNS: list[Callable[[list[int]], Any]] = [
    list,
    np.array,
    pd.Series,
    pa.array,
    lambda values: pa.chunked_array([values[:1], values[1:]]),
    lambda values: np.array(values, np.int16),
    lambda values: [f"id {value}" for value in values],
    lambda values: np.array(values, "datetime64[s]"),
    lambda values: [bytes([value]) for value in values],
    # A dictionary with another order, and with unused values.
    lambda values: pd.Series(pd.Categorical([f"id {value}" for value in values], [f"id {n}" for n in range(9)])),
    lambda values: pa.array([f"id {value}" for value in values], pa.dictionary(pa.int8(), pa.large_string())),
    lambda values: np.array(values, np.float32) - 1,
    lambda values: pa.array([Decimal(value) for value in values], pa.decimal32(5, 1)),
]


@pytest.mark.parametrize("made", COLUMNS)
def test_columns_of_many_kinds(common: DriverServer, made: Callable[[list[int]], Any]) -> None:
    """Columns of numpy, pandas, Arrow and lists, of many types: True for the first row of each new value."""
    seen = w.ConcurrentSet(common)
    new = seen.add_new(made([3, 1, 3, 2, 1]))
    assert new.tolist() == [True, True, False, True, False]
    numbers = [0, 1, 2, 3, 4]
    assert pd.DataFrame({"n": numbers})[new]["n"].tolist() == [0, 1, 3]
    assert pa.record_batch({"n": numbers}).filter(new).column("n").to_pylist() == [0, 1, 3]
    assert seen.add_new(made([2, 4])).tolist() == [False, True]
    assert seen.add_new(made([])[:0] if len(made([1])) else []).tolist() == []


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([1, None], "1 of the 2 values in ids are NULL"),
        ([1, "a"], "is not a column of one type"),
        (7, "is not a column of one type"),
        (np.array([2**63], np.uint64), "is not a column of one type"),
        (np.array([1.0, np.nan]), "1 of the 2 values in ids are NaN"),
        ("a text", r"ids \(str\) is not a column of one type"),
        ([[1], [2]], "have the nested type"),
        (pd.DataFrame({"id": [1]}), "DataFrame.* is not a column of one type"),
    ],
)
def test_invalid_columns_are_refused(common: DriverServer, values: Any, said: str) -> None:
    """NULL, NaN, mixed types, a single value and numbers beyond int64 raise, and nothing is added."""
    with pytest.raises(Error, match=said):
        w.ConcurrentSet(common).add_new(values)


def test_values_that_look_alike(common: DriverServer) -> None:
    """0.0 equals -0.0; the hour that clocks repeat has distinct times; string types compare by value."""
    numbers, times, texts = (w.ConcurrentSet(common) for _ in range(3))
    assert numbers.add_new([0.0, -0.0, 1.0]).tolist() == [True, False, True]
    assert numbers.add_new([-0.0, 2.0]).tolist() == [False, True]
    hours = pa.array([1_603_584_000 + 3_600 * n for n in range(6)], pa.timestamp("s", "Europe/Berlin"))
    assert times.add_new(hours).all() and not times.add_new(hours).any()
    assert texts.add_new(["a"]).all() and not texts.add_new(pa.array(["a"], pa.large_string())).any()


@given(seed=st.integers(0, 2**32 - 1))
def test_many_tasks_add_at_once(many: w.ConcurrentSet, seed: int) -> None:
    """Eight threads add batches at once: each value is new in exactly one of them."""
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 2**62)
    batches = [base + rng.integers(0, 500, rng.integers(1, 300)) for _ in range(24)]
    with ThreadPoolExecutor(8) as threads:
        told = [batch[new] for batch, new in zip(batches, threads.map(many.add_new, batches), strict=True)]
    assert sorted(np.concatenate(told)) == sorted(set(np.concatenate(batches).tolist()))


@pytest.fixture(scope="module")
def many(common: DriverServer) -> w.ConcurrentSet:
    """One set for all examples of a test."""
    return w.ConcurrentSet(common)
