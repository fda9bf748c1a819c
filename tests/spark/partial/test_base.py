"""Base tables of partial state: Parquet files that DuckDB reads, and the log that says which files there are."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import examples

import sharedstate_lite as ss
from sharedstate_lite.changelog import convert, validate
from sharedstate_lite.plan.nodes import Schema
from sharedstate_lite.spark.partial.base import BaseTables
from sharedstate_lite.spark.rounds.inbox import InboxEntry, RoundKind
from sharedstate_lite.storage.encoding import Dictionary

CATALOG = ss.Catalog(every="s STRING, i INT, x DOUBLE, b BOOLEAN, d DATE, t TIMESTAMP", other="k STRING")
VALUES: list[list[Any]] = [
    ["", "a", "b\0c", "\uffff", None],
    [-(2**31), 0, 2**31 - 1, None],
    [0.0, -0.0, 1e300, 0.1, None],
    [True, False, None],
    [dt.date(1, 1, 1), dt.date(9999, 12, 31), None],
    [dt.datetime(1, 1, 1, 2, 3, 4, 5), dt.datetime(2026, 3, 29, 1, 30), None],
]
ROWS = st.tuples(*map(st.sampled_from, VALUES))


def schema() -> Schema:
    """The columns of the relation."""
    return CATALOG.schema("every")


def bag(rows: Any, strings: Dictionary) -> Counter[Any]:
    """The rows of a delta with their diffs, as texts, in which all values are distinct."""
    columns = [convert.to_arrow(w, c.type, strings).to_pylist() for w, c in zip(rows.rows, schema(), strict=True)]
    return Counter({repr(row): d for *row, d in zip(*columns, rows.diffs.tolist(), strict=True)})


def written(tables: BaseTables, epochs: list[list[Any]], strings: Dictionary) -> list[InboxEntry]:
    """Write epochs of (row, diff), and return the log."""
    log = []
    for epoch, rows in enumerate(epochs, 1):
        deltas = validate.epoch({"every": rows}, CATALOG, strings)
        about = {"base": tables.append(epoch, deltas, strings)}
        log.append(InboxEntry(epoch - 1, RoundKind.EPOCH, epoch, "", about=about))
    return log


@examples(20)
@given(
    epochs=st.lists(st.lists(st.tuples(ROWS, st.sampled_from([1, 1, 2, -1])), max_size=5), max_size=4),
    columns=st.lists(st.sampled_from(range(6)), max_size=3, unique=True),
    keys=st.lists(ROWS, min_size=1, max_size=3),
    upto=st.none() | st.integers(0, 4),
)
def test_rows_by_any_columns_as_of_any_epoch(
    epochs: list[list[Any]], columns: list[int], keys: list[Any], upto: int | None, tmp_path_factory: Any
) -> None:
    """Rows are found by values of every type, NULL and both zeros included; equal values have equal words."""
    strings = Dictionary()
    tables = BaseTables(tmp_path_factory.mktemp("base"), CATALOG.relations)
    written(tables, epochs, strings)
    given_ = [pair for epoch in epochs[: len(epochs) if upto is None else upto] for pair in epoch]

    def words(rows: list[Any]) -> list[tuple[int, ...]]:
        lines = [convert.from_values([r[i] for r in rows], c, "r", strings) for i, c in enumerate(schema())]
        return list(zip(*(line.tolist() for line in lines), strict=True)) if rows else []

    wanted = {tuple(key[i] for i in columns) for key in words(keys)}
    expected: Counter[Any] = Counter()
    for row, (_, diff) in zip(words([row for row, _ in given_]), given_, strict=True):
        if tuple(row[i] for i in columns) in wanted:
            expected[row] += diff
    asked = np.array(words(keys), dtype=np.int64).T[columns]
    found = tables.rows("every", strings, tuple(columns), asked, upto)
    got = dict(zip(map(tuple, found.rows.T.tolist()), found.diffs.tolist(), strict=True))
    assert got == {row: diff for row, diff in expected.items() if diff}
    assert tables.size("every")[0] == len(tables.rows("every", strings).diffs)


def test_an_epoch_that_is_undone_and_written_again(tmp_path: Path) -> None:
    """The rows are those of the second attempt, also if a process was killed before it removed the first."""
    strings = Dictionary()
    first, second = ([((s, 1, 0.5, True, None, None), 1)] for s in ("first", "other"))
    tables = BaseTables(tmp_path, CATALOG.relations)
    log = written(tables, [first, first], strings)
    tables.take_back(1)
    assert bag(tables.rows("every", strings), strings) == bag(tables.rows("every", strings, upto=1), strings)
    tables.append(2, validate.epoch({"every": second}, CATALOG, strings), strings)
    assert len(tables.rows("every", strings).diffs) == 2
    log[1].void = True
    again = BaseTables(tmp_path, CATALOG.relations, log)
    again.take_back(1)
    assert [file.name for file in tmp_path.rglob("*.parquet")] == ["00000001.parquet"]
    assert len(again.rows("every", strings).diffs) == 1 and again.size("other") == (0, 0)


@pytest.mark.parametrize("damage", ["is lost", "was changed"])
def test_a_file_that_is_lost_or_changed_is_found(tmp_path: Path, damage: str) -> None:
    """A restart names the file, its relation and its epoch before anything is read."""
    strings = Dictionary()
    log = written(BaseTables(tmp_path, CATALOG.relations), [[(("a", 1, 0.5, True, None, None), 1)]], strings)
    (file,) = tmp_path.rglob("*.parquet")
    file.unlink() if damage == "is lost" else file.write_bytes(b"half")
    with pytest.raises(ss.CheckpointError, match=rf"{file}: .*base table every \(epoch 1\) {damage}; put the original"):
        BaseTables(tmp_path, CATALOG.relations, log)
