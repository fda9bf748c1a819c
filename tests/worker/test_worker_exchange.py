"""Every task gets the slices of all parts in order, round after round."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from leftovers import until

from sharedstate_lite import worker as w
from sharedstate_lite.errors import Error
from sharedstate_lite.worker.handles import exchange
from sharedstate_lite.worker.handles.driver import DriverServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

PARTS, ROUNDS = 3, 4


def test_all_get_the_whole(application: DriverServer) -> None:
    """All parts get the slices in order, and earlier rounds are deleted."""
    with w.Exchange(application, PARTS) as slices, ThreadPoolExecutor(PARTS) as pool:

        def run(part: int) -> list[list[int]]:
            rows = [pa.table({"n": np.full(part, 10 * round + part)}) for round in range(ROUNDS)]
            return [slices.all(round, part, table).column("n").to_pylist() for round, table in enumerate(rows)]

        said = list(pool.map(run, range(PARTS)))
        assert (
            said
            == [[[10 * round + part for part in range(PARTS) for _ in range(part)] for round in range(ROUNDS)]] * PARTS
        )
        assert sum(entry.kind == "Immutable" for entry in application.registered.values()) == 1
    assert not application.registered


def test_a_slice_may_be_put_again(common: DriverServer) -> None:
    """A retried task puts its slices again, gets the same wholes, and affects no other task."""
    with w.Exchange(common, 2) as slices, ThreadPoolExecutor(2) as pool:
        for _ in range(2):
            asked = [pool.submit(slices.all, 0, part, pa.table({"n": [part]})) for part in (1, 0)]
            assert [one.result().column("n").to_pylist() for one in asked] == [[0, 1]] * 2
        assert slices.all(0, 1, pa.table({"n": [1]})).num_rows == 2


def test_a_round_that_cannot_be_assembled_fails_for_all(common: DriverServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a round cannot be assembled, each of its tasks gets the reason at once."""

    def full(*of: object) -> None:
        raise OSError(28, "No space left on device")

    with w.Exchange(common, 2) as slices, ThreadPoolExecutor(2) as pool:
        with monkeypatch.context() as patched:
            patched.setattr(exchange, "Immutable", full)
            asked = [pool.submit(slices.all, 0, part, pa.table({"n": [part]})) for part in range(2)]
            for one in asked:
                with pytest.raises(Error, match="round 0 cannot be assembled: OSError: .*No space left"):
                    one.result(timeout=120)


def test_invalid_and_missing_slices_raise(common: DriverServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """An invalid part, a slice with other columns, and a missing slice each raise an error."""
    monkeypatch.setattr(exchange, "ROUND_SECONDS", 0.2)
    with w.Exchange(common, 2) as slices, ThreadPoolExecutor(2) as pool:
        with pytest.raises(Error, match="part 2 does not exist"):
            slices.all(0, 2, pa.table({"n": [1]}))
        with pytest.raises(Error, match="round -1 does not exist. Rounds are numbered from 0"):
            slices.all(-1, 0, pa.table({"n": [1]}))
        with pytest.raises(Error, match=r"round 7 has 1 of 2 slices after 0.2 s. All tasks must run at the same time"):
            slices.all(7, 0, pa.table({"n": [1]}))
        asked = [pool.submit(slices.all, 8, part, pa.table({name: [1]})) for part, name in enumerate("nm")]
        for one in asked:
            with pytest.raises(Error, match="round 8: the slices have different columns"):
                one.result()
        with pytest.raises(Error, match="round='a' and part=0 must both be integers"):
            slices.all("a", 0, pa.table({"n": [1]}))  # type: ignore[arg-type]
    with pytest.raises(Error, match="parts=0"):
        w.Exchange(common, 0)


def test_closing_ends_the_wait(common: DriverServer) -> None:
    """close() while a slice is missing raises an error in the waiting task."""
    with w.Exchange(common, 2) as slices, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(slices.all, np.int64(0), np.int64(1), pa.table({"n": [1]}))  # type: ignore[arg-type]
        until(lambda: bool(slices._rounds))
        slices.close()
        with pytest.raises(Error, match="closed while slices were missing"):
            waiting.result(20)


def test_on_spark(anywhere: SparkSession) -> None:
    """Tasks of one barrier stage exchange slices."""
    with w.Exchange(anywhere, 2) as slices:

        def run(part: int, rows: Iterator[int]) -> Iterator[int]:
            mine = np.array(list(rows), np.int64)
            for round in range(ROUNDS):
                whole = slices.all(round, part, pa.table({"n": mine})).column("n").to_numpy()
                mine = mine + int(whole.sum())
            yield from mine.tolist()

        said = anywhere.sparkContext.parallelize([1, 2, 3, 4], 2).barrier().mapPartitionsWithIndex(run).collect()
    total, expected = 0, np.array([1, 2, 3, 4])
    for _ in range(ROUNDS):
        total = int(expected.sum())
        expected = expected + total
    assert said == expected.tolist()
