"""Files as other programs write them: each is read right, or refused with the column.

pandas, Arrow, DuckDB and Spark write theirs here. Those of Excel, R, polars and PostgreSQL are imitations: the texts
are what these programs write by default (polars 2.1 and PostgreSQL 18 were run to see it; Excel and R are as in their
manuals), and Arrow writes polars' Parquet file, with the note on the types that polars leaves in it.
"""

from __future__ import annotations

import base64
import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from support import tuples

from data import declaration, load
from sharedstate_lite.errors import Error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOON, DAY = dt.datetime(2024, 1, 1, 12), dt.date(2024, 1, 1)
PARIS = NOON - dt.timedelta(hours=1)
FRAME = pd.DataFrame(
    {
        "i": [1, None],
        "b": [True, False],
        "s": ['a,"b"\n', None],
        "t": [NOON, NOON],
        "z": pd.Series([NOON, None]).dt.tz_localize("Europe/Paris"),
        "d": [DAY, None],
        "c": pd.Categorical(["u", None]),
        "n": [None, None],
        "m": pd.Categorical([None, None]),
    }
)
PANDAS = "i DOUBLE, b BOOLEAN, s STRING, t TIMESTAMP, z TIMESTAMP, d DATE, c STRING, n STRING, m STRING"
PANDAS_ROWS = [
    (1.0, True, 'a,"b"\n', NOON, PARIS, DAY, "u", None, None),
    (None, False, None, NOON, None, None, None, None, None),
]
SQL = (
    "SELECT i::SMALLINT AS i, b, e, d::DATE AS d, z::TIMESTAMPTZ AS z, x::DOUBLE AS x, c::ENUM('u', 'v') AS c, n FROM "
    "(VALUES (1, true, '', '2024-01-01', '2024-01-01 12:00:00+00', 1.5, 'u', NULL), "
    "(NULL, false, NULL, NULL, NULL, NULL, NULL, NULL)) t(i, b, e, d, z, x, c, n)"
)
KINDS = "i INT, b BOOLEAN, e STRING, d DATE, z TIMESTAMP, x DOUBLE, c STRING, n STRING"
ROWS = [(1, True, "", DAY, NOON, 1.5, "u", None), (None, False, None, None, None, None, None, None)]

Write = str | Callable[[Path], object]


def by_duckdb(sql: str, options: str = "FORMAT parquet") -> Write:
    """DuckDB's export of a query."""
    return lambda path: duckdb.sql(f"COPY ({sql}) TO '{path}' ({options})")


def by_arrow(*columns: Any) -> Callable[[Path], object]:
    """A Parquet file with columns v0, v1, ..."""
    return lambda path: pyarrow.parquet.write_table(pa.table({f"v{n}": c for n, c in enumerate(columns)}), path)


def by_polars(columns: dict[str, tuple[Any, Any]]) -> Write:
    """A Parquet file of plain columns, with the note that they had other types."""

    def write(path: Path) -> None:
        table = pa.table({name: plain for name, (plain, _) in columns.items()})
        note = base64.b64encode(pa.schema([(name, kind) for name, (_, kind) in columns.items()]).serialize())
        with pyarrow.parquet.ParquetWriter(path, table.schema, store_schema=False) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata({"ARROW:schema": note})

    return write


def written(folder: Path, name: str, write: Write) -> Path:
    """The file. The name begins with the program's, and ends with the kind of file."""
    path = folder / f"mine.{name.split()[-1]}"
    if isinstance(write, str):
        path.write_bytes(write.encode())
    else:
        write(path)
    return path


EMPTY = [pa.array([], kind) for kind in (pa.int64(), pa.float64(), pa.bool_(), pa.date32(), pa.timestamp("ns", "UTC"))]
NULLS = [pa.array([None, None], column.type) for column in EMPTY]
FIVE = "v0 BIGINT, v1 DOUBLE, v2 BOOLEAN, v3 DATE, v4 TIMESTAMP"
READ: dict[str, tuple[Write, dict[str, Any], str, list[Any]]] = {
    "pandas csv": (FRAME.to_csv(index=False), {}, PANDAS, PANDAS_ROWS),
    "pandas, no rows, csv": (FRAME[["i", "s"]].iloc[:0].to_csv(index=False), {"schema": "i INT"}, "i INT", []),
    "pandas parquet": (FRAME.to_parquet, {}, PANDAS.replace("m STRING", "m DOUBLE"), PANDAS_ROWS),
    "pandas, no rows, parquet": (FRAME[["i", "t", "c"]].iloc[:0].to_parquet, {}, "i DOUBLE, t TIMESTAMP, c STRING", []),
    "Arrow, no rows, parquet": (by_arrow(*EMPTY), {}, FIVE, []),
    "Arrow, NULLs only, parquet": (by_arrow(*NULLS), {}, FIVE, [(None,) * 5] * 2),
    "Arrow, views and dictionaries, parquet": (
        by_arrow(
            pa.array(["a", None], pa.string_view()),
            pa.array(["a", None], pa.large_string()).dictionary_encode(),
            pa.array([DAY, None]).dictionary_encode(),
            pa.nulls(2),
        ),
        {},
        "v0 STRING, v1 STRING, v2 DATE, v3 STRING",
        [("a", "a", DAY, None), (None, None, None, None)],
    ),
    "Arrow, decimals, parquet": (
        by_arrow(pa.array([Decimal("1.50"), None]), pa.array([Decimal("2.00"), None])),
        {"schema": "v0 DOUBLE, v1 INT"},
        "v0 DOUBLE, v1 INT",
        [(1.5, 2), (None, None)],
    ),
    "Arrow, decimals, NULLs only, parquet": (
        by_arrow(pa.array([None], pa.decimal128(9, 2))),
        {"schema": "v0 BIGINT"},
        "v0 BIGINT",
        [(None,)],
    ),
    "DuckDB csv": (by_duckdb(SQL, "FORMAT csv, HEADER"), {}, KINDS, ROWS),
    "DuckDB parquet": (by_duckdb(SQL), {}, KINDS, ROWS),
    "DuckDB, no rows, parquet": (by_duckdb(f"{SQL} WHERE false"), {}, KINDS, []),
    "DuckDB, sums, parquet": (
        by_duckdb("SELECT SUM(i) AS s, COUNT(*) AS c, 'nan'::DOUBLE AS x FROM range(3) r(i)"),
        {},
        "s DOUBLE, c BIGINT, x DOUBLE",
        [(3.0, 3, None)],
    ),
    "polars csv": (
        'i,b,e,d,z,x,c,n\n1,true,"",2024-01-01,2024-01-01T13:00:00.000000+0100,1.5,u,\n,false,,,,,,\n',
        {},
        KINDS,
        ROWS,
    ),
    "polars, NaN, csv": ("x,y\n1.5,a\nNaN,b\n", {"schema": "x DOUBLE"}, "x DOUBLE", [(1.5,), (None,)]),
    "polars parquet": (
        by_polars(
            {
                "s": (pa.array(["a", None]), pa.string_view()),
                "l": (pa.array(["a", None]), pa.large_string()),
                "c": (pa.array(["u", None]), pa.dictionary(pa.uint32(), pa.string_view())),
                "e": (pa.array(["u", None]), pa.dictionary(pa.uint8(), pa.large_string(), ordered=True)),
                "z": (pa.array([NOON, None], pa.timestamp("us", "UTC")), pa.timestamp("us", "Europe/Paris")),
                "n": (pa.nulls(2, pa.int32()), pa.null()),
            }
        ),
        {"schema": "s STRING, l STRING, c STRING, e STRING, z TIMESTAMP, n INT"},
        "s STRING, l STRING, c STRING, e STRING, z TIMESTAMP, n INT",
        [("a", "a", "u", "u", NOON, None), (None,) * 6],
    ),
    "R csv": (
        '"s","b","d","t","x"\n"a ""b""",TRUE,2024-01-01,2024-01-01 12:00:00,1e+05\n'
        '"NA",FALSE,2024-01-01,2024-01-02,2\n',
        {},
        "s STRING, b BOOLEAN, d DATE, t TIMESTAMP, x DOUBLE",
        [('a "b"', True, DAY, NOON, 1e5), ("NA", False, DAY, dt.datetime(2024, 1, 2), 2.0)],
    ),
    "R, write.csv2, csv": ('"i";"s"\n1;"x"\n2;"y"\n', {"sep": ";"}, "i INT, s STRING", [(1, "x"), (2, "y")]),
    "Excel csv": (
        '\ufeffi,s,b\r\n1,"x, ""y""\nz",TRUE\r\n,,\r\n',
        {},
        "i INT, s STRING, b BOOLEAN",
        [(1, 'x, "y"\nz', True), (None, None, None)],
    ),
    "Excel with a decimal comma csv": (
        "\ufeffi;x;d\r\n1;1,5;31.01.2024\r\n",
        {"sep": ";"},
        "i INT, x STRING, d STRING",
        [(1, "1,5", "31.01.2024")],
    ),
    "Excel of a Mac csv": ("i,s\r1,x\r2,y\r", {}, "i INT, s STRING", [(1, "x"), (2, "y")]),
    "PostgreSQL csv": (
        'i,b,e,d,z,x,c,n\n1,t,"",2024-01-01,2024-01-01 12:00:00+00,1.50,u,\n,f,,,,,,\n',
        {"schema": KINDS},
        KINDS,
        ROWS,
    ),
    "PostgreSQL, a zone of India, csv": (
        'z,a,j\n2024-01-01 17:30:00+05:30,"{1,2}","{""k"": 1}"\n',
        {},
        "z TIMESTAMP, a STRING, j STRING",
        [(NOON, "{1,2}", '{"k": 1}')],
    ),
}


@pytest.mark.parametrize("name", READ)
def test_what_programs_write_is_read(tmp_path: Path, name: str) -> None:
    """The types and the rows are those that the program had."""
    write, options, kinds, rows = READ[name]
    loaded = load(written(tmp_path, name, write), **options)
    assert declaration(loaded) == kinds
    assert tuples(loaded.drop(columns="diff")) == rows


REFUSED: dict[str, tuple[Write, dict[str, Any], str]] = {
    "pandas with its index csv": (FRAME.to_csv(), {}, "column 1 has no name. .* write it with index=False"),
    "pandas durations parquet": (pd.DataFrame({"v": pd.to_timedelta([1])}).to_parquet, {}, "column v .*duration"),
    "pandas periods parquet": (
        pd.DataFrame({"v": pd.period_range("2024", periods=1)}).to_parquet,
        {},
        "column v .*peri",
    ),
    "Arrow, decimals, parquet": (
        by_arrow(pa.array([Decimal("1.5")])),
        {},
        "column v0 .*decimal.* declares it as DOUBLE",
    ),
    "Arrow, no decimals, parquet": (
        by_arrow(pa.array([], pa.decimal128(9, 2))),
        {},
        "column v0 .* declares it as DOUBLE",
    ),
    "Arrow, a fraction, parquet": (
        by_arrow(pa.array([Decimal("1.5")])),
        {"schema": "v0 INT"},
        "row 1, column v0: .*1.5",
    ),
    "Arrow, after NULLs, parquet": (by_arrow(pa.array([None] * 10 + [float("inf")])), {}, "row 11, column v0: inf"),
    "Arrow, lists, parquet": (
        by_arrow(pa.array([1]), pa.array([[1]])),
        {},
        r"column v1 .*list.* that omits the column\.",
    ),
    "Arrow, no lists, parquet": (
        by_arrow(pa.array([], pa.list_(pa.int8()))),
        {"schema": "v0 INT"},
        "column v0: .*list",
    ),
    "Arrow, structs, parquet": (by_arrow(pa.array([{"a": 1}])), {}, "column v0 .*struct"),
    "Arrow, maps, parquet": (by_arrow(pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8()))), {}, "column v0 .*map"),
    "DuckDB, a time, parquet": (by_duckdb("SELECT TIME '12:00' AS v"), {}, "column v .*time64"),
    "DuckDB, JSON, parquet": (by_duckdb("SELECT '{}'::JSON AS v"), {}, "column v .*json"),
    "DuckDB, a UUID, parquet": (by_duckdb("SELECT uuid() AS v"), {}, "column v .*uuid"),
    "DuckDB, nanoseconds, parquet": (
        by_duckdb("SELECT TIMESTAMP_NS '2024-01-01 12:00:00.123456789' AS v"),
        {},
        "row 1, column v: .*123456789",
    ),
    "DuckDB, infinity, parquet": (
        by_duckdb("SELECT 'infinity'::DATE AS v"),
        {},
        "row 1, column v: .*does not fit DATE",
    ),
    "polars, infinity, csv": ("v\n1.5\ninf\n", {"schema": "v DOUBLE"}, "row 2 .*column v: 'inf'"),
    "R with its row names csv": ('"","v"\n"1",1\n', {}, "column 1 has no name. .* row.names=FALSE"),
    "R, NA, csv": ('"v"\n1\nNA\n', {"schema": "v INT"}, "row 2 .*column v: 'NA'"),
    "R, write.csv2, csv": ('"v";"s"\n1,5;"x"\n', {}, "the separator seems to be ';'"),
    "R, a decimal comma, csv": ('"v";"s"\n1,5;"x"\n', {"schema": "v DOUBLE", "sep": ";"}, "row 1 .*column v: '1,5'"),
    "Excel with semicolons csv": ("\ufeffa;b\r\n1;2\r\n", {}, "the separator seems to be ';'"),
    "Excel, a date of Germany, csv": ("d,x\r\n31.01.2024,1\r\n", {"schema": "d DATE"}, "column d: '31.01.2024'"),
    "Excel, ANSI, csv": (
        lambda path: path.write_bytes("a,b\r\n1,\xe9\r\n".encode("cp1252")),
        {},
        "line 2: .*not UTF-8",
    ),
    "Excel, Unicode text, tsv": (lambda path: path.write_bytes("a\tb\r\n".encode("utf-16")), {}, "it is UTF-16"),
    "PostgreSQL, infinity, csv": ("v\n1.5\nInfinity\n", {"schema": "v DOUBLE"}, "row 2 .*column v: 'Infinity'"),
    "PostgreSQL, COPY as text, tsv": ("v\ts\n1\tx\n\\N\ty\n", {"schema": "v INT"}, r"row 2 .*column v: '\\\\N'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_kit_has_no_value_for_is_refused(tmp_path: Path, name: str) -> None:
    """The error names the file, and the column or the line."""
    write, options, text = REFUSED[name]
    path = written(tmp_path, name, write)
    with pytest.raises(Error, match=f"^{re.escape(str(path))}.*{text}"):
        load(path, **options)


def test_a_folder_may_have_parts_without_values(tmp_path: Path) -> None:
    """Parts without rows, or with NULLs only, of any type, leave the type to the others; `make` writes such parts."""
    parts = [pa.array([1], pa.int8()), pa.array([], pa.int64()), pa.nulls(2), pa.array([2, None], pa.int32())]
    for n, part in enumerate(parts):
        by_arrow(part)(tmp_path / f"{n}.parquet")
    loaded = load(tmp_path)
    assert declaration(loaded) == "v0 BIGINT" and tuples(loaded[["v0"]]) == [(1,), (None,), (None,), (2,), (None,)]


def test_what_spark_writes_is_read(tmp_path: Path, spark: SparkSession) -> None:
    """Parquet and CSV of one part each, and a decimal, a list and a backslash before a quote are refused."""
    kinds = "i INT, b BOOLEAN, e STRING, d DATE, z TIMESTAMP, x DOUBLE, n STRING"
    rows = [(1, True, "", DAY, NOON, 1.5, None), (None, False, None, None, None, None, None)]
    frame = spark.createDataFrame(rows, kinds.replace("z TIMESTAMP", "z TIMESTAMP_NTZ")).coalesce(1)
    frame.write.parquet(f"{tmp_path}/p")
    frame.write.csv(f"{tmp_path}/c", header=True)
    for folder in "pc":
        loaded = load(tmp_path / folder)
        assert (declaration(loaded), tuples(loaded.drop(columns="diff"))) == (kinds, rows)
    frame.where("i < 0").coalesce(1).write.parquet(f"{tmp_path}/none")
    assert declaration(load(tmp_path / "none")) == kinds and load(tmp_path / "none").empty
    odd = spark.sql("SELECT 1.5BD AS v, array(1) AS l, 'say \"a\"' AS q").coalesce(1)
    odd.write.parquet(f"{tmp_path}/o")
    odd.select("q").write.csv(f"{tmp_path}/q", header=True)
    for folder, text in (("o", "column v has the type decimal"), ("q", r"row 1 \(line 2\): text follows a closing")):
        with pytest.raises(Error, match=text):
            load(tmp_path / folder)
