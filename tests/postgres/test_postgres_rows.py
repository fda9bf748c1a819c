"""Rows written to PostgreSQL are read back unchanged; a refused write changes nothing."""

from __future__ import annotations

import datetime as dt
from typing import Any

import hypothesis.strategies as st
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from servers import OURS

from sharedstate_lite import postgres
from sharedstate_lite.errors import Error

pytestmark = OURS


VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "s": (pa.string(), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)),
    "i": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "n": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "x": (pa.float64(), st.floats(allow_nan=False)),
    "b": (pa.bool_(), st.booleans()),
    "d": (pa.date32(), st.dates(dt.date(1, 1, 1))),
    "t": (pa.timestamp("us"), st.datetimes(dt.datetime(1, 1, 1))),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in VALUES.items()])


@given(rows=st.lists(st.fixed_dictionaries({k: st.none() | v for k, (_, v) in VALUES.items()}), max_size=8))
def test_rows_come_back_as_they_were(server: postgres.Server, rows: list[dict[str, Any]]) -> None:
    """Every value of every type, NULL, empty text and quotes included, is read back by another route unchanged."""
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    assert postgres.write(server, "Some Rows", table, replace=True) == len(rows)
    with server.connect() as connection:
        back = connection.execute('SELECT * FROM "Some Rows"').fetchall()
    assert back == [tuple(row[name] for name in VALUES) for row in rows]


def test_frames_batches_and_keys(server: postgres.Server) -> None:
    """Writes pandas frames, batches and dictionary columns; creates a key; appends; replaces."""
    frame = pd.DataFrame({"id": pd.array([1, 2], "Int64"), "name": pd.Categorical(["a", None])}, index=[7, 8])
    assert postgres.write(server, "kinds", frame, key=["id"]) == 2
    more = pa.record_batch({"id": pa.array([3]), "name": pa.array(["c"])})
    assert postgres.write(server, "kinds", iter([more, more.slice(0, 0)]), append=True) == 1
    with server.connect() as connection:
        assert connection.execute("SELECT * FROM kinds ORDER BY id").fetchall() == [(1, "a"), (2, None), (3, "c")]
    assert postgres.write(server.dsn, "kinds", pa.table({"y": pa.array([], pa.float32())}), replace=True) == 0


@pytest.mark.parametrize(
    ("table", "rows", "options", "said"),
    [
        ("there", pa.table({"x": [1]}), {}, "already exists.*append=True.*replace=True"),
        ("there", pa.table({"x": ["one"]}), {"append": True}, 'invalid input syntax.*"one".*Nothing was written'),
        ("there", pa.table({"y": [1]}), {"append": True}, 'column "y".*does not exist'),
        ("there", pa.table({"x": [1]}), {"append": True, "replace": True}, "Omit replace"),
        ("new", pa.table({"x": ["a\0b"]}), {}, "invalid byte sequence"),
        ("new", pa.table({"x": [[1]]}), {}, "column 'x': list.*is not supported"),
        ("new", pa.table({"x": [1, 1]}), {"key": ["x"]}, "duplicate key|Key .x.=.1. already exists"),
        ("new", pa.table({"x": [1]}), {"key": ["z"]}, "key column 'z' is not among"),
        ("new", pa.table({}), {}, "needs columns"),
        ("new", [], {}, "no batch"),
        ("no such schema.new", pa.table({"x": [1]}), {}, 'schema "no such schema" does not exist'),
    ],
)
def test_refused_write_changes_nothing(
    server: postgres.Server, table: str, rows: Any, options: dict[str, Any], said: str
) -> None:
    """A write that is refused, before or during the COPY, says why and leaves the database unchanged."""
    postgres.write(server, "there", pa.table({"x": [5]}), replace=True)
    with pytest.raises(Error, match=said):
        postgres.write(server, table, rows, **options)
    with server.connect() as connection:
        assert connection.execute("SELECT x FROM there").fetchall() == [(5,)]
        assert connection.execute("SELECT to_regclass('new')").fetchone() == (None,)
