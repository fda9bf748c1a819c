"""Folders of files, and Parquet: how they become one table of the kit's types."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from sharedstate_lite.data import declaration, load
from sharedstate_lite.errors import Error


def file(folder: Path, content: str, name: str) -> Path:
    """A file with this content."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def cells(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    """The rows as plain values, None where NULL."""
    rows = frame.astype(object).where(frame.notna(), None)
    return [tuple(row) for row in rows.itertuples(index=False, name=None)]


def test_a_folder_is_one_table(tmp_path: Path) -> None:
    """A folder's files are read in order of their paths, with one type a column; what Spark hides is skipped."""
    file(tmp_path, "a,b\n1,x\n", "t/k=one/part-1.csv")
    file(tmp_path, "b,a\ny,2.5\n", "t/k=t%2Fwo/part-0.csv")
    file(tmp_path, "", "t/_SUCCESS")
    file(tmp_path, "", "t/.part.crc")
    file(tmp_path, "a,b\n9,z\n", "t/_temporary/part-2.csv")
    assert cells(load(tmp_path / "t")) == [(1.0, "x", "one", 1), (2.5, "y", "t/wo", 1)]
    file(tmp_path, "a,c\n1,x\n", "t/k=three/part.csv")
    with pytest.raises(Error, match="has the columns b, c"):
        load(tmp_path / "t")


@pytest.mark.parametrize("inside", ["X=1/x=2/part.csv", "x=1/K=3/part.csv", "k=3/part.csv"])
def test_a_column_comes_from_one_place(tmp_path: Path, inside: str) -> None:
    """A folder's column that another folder, or the file, has is refused, and none of them is dropped."""
    path = file(tmp_path, "k\n9\n", f"t/{inside}")
    with pytest.raises(
        Error, match=f"{path}: the file already has the column .* that the folder {path.parent.name} adds"
    ):
        load(tmp_path / "t")


def test_an_error_in_a_folder_names_the_file(tmp_path: Path) -> None:
    """Rows are counted by file."""
    file(tmp_path, "a\n1\n2\n", "t/1.csv")
    file(tmp_path, "a\n3\nx\n", "t/2.csv")
    with pytest.raises(Error, match=r"2\.csv, row 2 \(line 3\), column a: 'x'"):
        load(tmp_path / "t", "a INT")


def test_parquet_as_others_write_it(tmp_path: Path) -> None:
    """Every usual Parquet type becomes the kit's type that holds it, NaN becomes NULL, zones are taken to UTC."""
    path = tmp_path / "mine.parquet"
    moments = [datetime.datetime(2024, 1, 1, 12), None]
    table = pa.table(
        {
            "i8": pa.array([1, None], pa.int8()),
            "u32": pa.array([2**32 - 1, 0], pa.uint32()),
            "f": pa.array([1.5, float("nan")], pa.float32()),
            "s": pa.array(["a", None], pa.large_string()),
            "c": pa.array(["x", "x"]).dictionary_encode(),
            "d": pa.array([datetime.date(2024, 1, 1), None]),
            "ms": pa.array(moments, pa.timestamp("ms")),
            "z": pa.array(moments, pa.timestamp("ns", "Europe/Paris")),
            "n": pa.nulls(2),
            "diff": pa.array([1, -1], pa.int32()),
        }
    )
    pyarrow.parquet.write_table(table, path)
    loaded = load(path)
    assert declaration(loaded) == (
        "i8 INT, u32 BIGINT, f DOUBLE, s STRING, c STRING, d DATE, ms TIMESTAMP, z TIMESTAMP, n STRING"
    )
    noon = pd.Timestamp("2024-01-01 12:00")
    assert cells(loaded) == [
        (1, 2**32 - 1, 1.5, "a", "x", datetime.date(2024, 1, 1), noon, noon, None, 1),
        (None, 0, None, None, "x", None, None, None, None, -1),
    ]
    assert declaration(load(path, "u32 DOUBLE, d TIMESTAMP, i8 BIGINT")) == "u32 DOUBLE, d TIMESTAMP, i8 BIGINT"


PARQUET = [
    (pa.array(["a"]), "v INT", "string, which cannot be converted to INT"),
    (pa.array([1]), "v STRING", "int64, which cannot be converted to STRING"),
    (
        pa.array([b"a", None, b"\xff"]).view(pa.string()),
        None,
        "row 3, column v: b'\\xff' does not fit STRING: expected UTF-8 text",
    ),
    (
        pa.array([b"\xff"]).view(pa.string()),
        "v STRING",
        "row 1, column v: b'\\xff' does not fit STRING: expected UTF-8 text",
    ),
    (pa.array([True]), "v INT", "bool, which cannot be converted to INT"),
    (pa.array([1.0, 1.5]), "v INT", "row 2, column v: 1.5 does not fit INT: expected a whole number"),
    (pa.array([1, 2**31]), "v INT", "row 2, column v: 2147483648 does not fit INT"),
    (pa.array([2**64 - 1], pa.uint64()), None, "does not fit BIGINT"),
    (
        pa.array([1, 2**53, -(2**53) - 1]),
        "v DOUBLE",
        "row 3, column v: -9007199254740993 does not fit DOUBLE",
    ),
    (pa.array([2**53, 2**62]), "v DOUBLE", "row 2, column v: 4611686018427387904 does not fit DOUBLE"),
    (pa.array([1, 2**64 - 1], pa.uint64()), "v DOUBLE", "row 2, column v: 18446744073709551615 does not fit DOUBLE"),
    (pa.array([2.0**62, -(2.0**63)]), "v BIGINT", "row 2, column v: -9.223372036854776e+18 does not fit BIGINT"),
    (pa.array([-(2.0**31) - 1]), "v INT", "does not fit INT"),
    (pa.array([float("inf")]), None, "row 1, column v: inf does not fit DOUBLE: expected a finite number"),
    (
        pa.array([1], pa.timestamp("ns")),
        None,
        "TIMESTAMP: expected a time in the years 1 to 9999, with microsecond precision",
    ),
    (pa.array([1], pa.timestamp("s")), "v DATE", "time of day"),
    (
        pa.array([2**60], pa.timestamp("ms")),
        None,
        "row 1, column v: 1152921504606846976 timestamp[ms] does not fit TIMESTAMP",
    ),
    (
        pa.array([0, -719528], pa.int32()).cast(pa.date32()),
        None,
        "row 2, column v: -719528 date32[day] does not fit DATE",
    ),
    (pa.array([2**31 - 1], pa.int32()).cast(pa.date32()), "v TIMESTAMP", "expected a time in the years 1 to 9999"),
    (
        pa.array([2**62], pa.timestamp("us")),
        None,
        "row 1, column v: 4611686018427387904 timestamp[us] does not fit TIMESTAMP",
    ),
    (pa.array([253_402_300_800], pa.timestamp("s")), "v DATE", "expected a date in the years 1 to 9999"),
    (pa.array([decimal.Decimal(9**60)], pa.decimal256(70, 2)), "v BIGINT", "does not fit BIGINT"),
    (pa.array([np.float16(1.5)]), "v INT", "1.5 does not fit INT: expected a whole number"),
    (pa.array([decimal.Decimal("1.5")]), None, "has the type"),
    (pa.array([[1]]), None, "has the type"),
    (pa.array([b"x"]), None, "has the type"),
]


@pytest.mark.parametrize(("column", "schema", "named"), PARQUET, ids=[named for _, _, named in PARQUET])
def test_parquet_that_does_not_fit_is_refused(tmp_path: Path, column: Any, schema: str | None, named: str) -> None:
    """Nothing is parsed, no whole number rounded: the type, or the first value, that does not fit is named."""
    pyarrow.parquet.write_table(pa.table({"v": column}), tmp_path / "mine.parquet")
    with pytest.raises(Error) as caught:
        load(tmp_path / "mine.parquet", schema)
    assert named in str(caught.value) and "mine.parquet" in str(caught.value)


@pytest.mark.parametrize("name", ["", " "])
def test_a_column_without_a_name_is_refused(tmp_path: Path, name: str) -> None:
    """A name of no letters is refused, as in a CSV; under another name the column is like any other."""
    pyarrow.parquet.write_table(pa.table({"a": ["x"], name: [1]}), tmp_path / "mine.parquet")
    for schema in (None, "a STRING"):
        with pytest.raises(Error, match=rf"mine.parquet: column 2 has no name, .* rename={{'{name}': 'name'}}"):
            load(tmp_path / "mine.parquet", schema)
    assert declaration(load(tmp_path / "mine.parquet", rename={name: "n"})) == "a STRING, n BIGINT"


def test_duckdb_and_spark_files_are_read(tmp_path: Path) -> None:
    """What DuckDB exports, as Parquet or partitioned CSV, comes back with the rows that it had."""
    source = "SELECT i, 'c' || i % 2 AS c, DATE '2024-01-01' + i::INT AS d FROM range(10) r(i)"
    duckdb.sql(f"COPY ({source}) TO '{tmp_path}/one.parquet'")
    duckdb.sql(f"COPY ({source}) TO '{tmp_path}/many' (FORMAT csv, HEADER, PARTITION_BY (c))")
    expected = sorted(duckdb.sql(f"SELECT i, c, d, 1 FROM ({source})").fetchall())
    assert sorted(cells(load(tmp_path / "one.parquet"))) == expected
    many = load(tmp_path / "many", "i BIGINT, c STRING, d DATE")
    assert sorted(cells(many)) == expected
