"""Files as other programs write them: each is read right, or refused with the column.

pandas, Arrow, DuckDB and Spark write theirs here. Those of Excel, Numbers, R, polars and PostgreSQL are imitations: the
texts are what these programs write by default (polars 2.1 and PostgreSQL 18 were run to see it; the others are as in
their manuals), and Arrow writes polars' Parquet file, with the note on the types that polars leaves in it.
"""

from __future__ import annotations

import base64
import datetime as dt
import logging
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

from sharedstate_lite.data import declaration, load
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
    "Excel of Germany csv": (
        "\ufeffd;t;x;p;i\r\n31.01.2024;1.2.2024 09:05;1.234,50;50,00%;7\r\n;;-0,5;;\r\n",
        {"sep": ";", "forms": {"d": "31.1.2024", "T": "31.1.2024", "x": "1.234,5", "p": "50%"}},
        "d DATE, t TIMESTAMP, x DOUBLE, p DOUBLE, i INT",
        [(dt.date(2024, 1, 31), dt.datetime(2024, 2, 1, 9, 5), 1234.5, 0.5, 7), (None, None, -0.5, None, None)],
    ),
    "Excel of the USA csv": (
        '\ufeffd,t,x,n\r\n3/4/2024,1/31/2024 9:05:07.5,"1,234.50","1,234"\r\n',
        {
            "forms": {"d": "1/31/2024", "t": "1/31/2024", "x": "1,234.5", "n": "1,234.5"},
            "schema": "n BIGINT, d DATE, t TIMESTAMP",
        },
        "n BIGINT, d DATE, t TIMESTAMP",
        [(1234, dt.date(2024, 3, 4), dt.datetime(2024, 1, 31, 9, 5, 7, 500_000))],
    ),
    "Numbers csv": (
        'Product,Price,Share\nKiwi,"1,25",10 %\nFig,2,"12,5 %"\n',
        {"rename": {"price": "p"}, "forms": {"P": "1.234,5", "share": "50%"}},
        "Product STRING, p DOUBLE, Share DOUBLE",
        [("Kiwi", 1.25, 0.1), ("Fig", 2.0, 0.125)],
    ),
    "R, write.csv2, numbers csv": (
        '"x";"s"\n1,5;"a"\n;"b"\n',
        {"sep": ";", "forms": {"x": "1.234,5"}},
        "x DOUBLE, s STRING",
        [(1.5, "a"), (None, "b")],
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


NOTED = {"Excel with a decimal comma csv": ["x", "d"]}
"""The columns that become STRING although their values are numbers or dates, and therefore get a note."""


@pytest.mark.parametrize("name", READ)
def test_what_programs_write_is_read(tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str) -> None:
    """The types and the rows are those that the program had, also for a path as text; only NOTED columns get a note."""
    write, options, kinds, rows = READ[name]
    path = written(tmp_path, name, write)
    with caplog.at_level(logging.INFO, "sharedstate_lite"):
        loaded = load(path, **options)
    assert declaration(loaded) == kinds
    assert tuples(loaded.drop(columns="diff")) == rows
    assert [re.findall(r": column (\w+) ", text) for text in caplog.messages] == [[c] for c in NOTED.get(name, [])]
    assert loaded.equals(load(str(path), **options))


LOOKS = [
    ("31.01.2024", ["DATE"], ["31.1.2024"]),
    ("31/1/2024 9:05", ["TIMESTAMP"], ["31/1/2024"]),
    ("1/31/2024", ["DATE"], ["1/31/2024"]),
    ("3/4/2024", ["DATE"], ["31/1/2024", "1/31/2024"]),
    ("73,44", ["DOUBLE"], ["1.234,5"]),
    ("1.234.567,8", ["DOUBLE"], ["1.234,5"]),
    ("-1,234.50", ["DOUBLE"], ["1,234.5"]),
    ("1,234,567", ["INT"], ["1,234.5"]),
    ("1,234", ["DOUBLE", "INT"], ["1.234,5", "1,234.5"]),
    ("12.5%", ["DOUBLE"], ["50%"]),
    ("12,5 %", ["DOUBLE"], ["50%"]),
]


@pytest.mark.parametrize(("cell", "kinds", "forms"), LOOKS)
def test_a_note_says_how_the_column_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, cell: str, kinds: list[str], forms: list[str]
) -> None:
    """The note is one line with each call that reads the column, and each of these calls reads it, declared or not."""
    path = written(tmp_path, "a person csv", f"My Column;s\n{cell};a\n;b\n")
    with caplog.at_level(logging.INFO, "sharedstate_lite"):
        assert declaration(load(path, sep=";")) == '"My Column" STRING, s STRING'
    calls = [f"forms={{'My Column': {form!r}}}" for form in forms]
    assert caplog.messages == [
        f"{path}: column My Column is loaded as STRING, but all of its values look like {cell!r}. "
        f"To load it as {' or '.join(kinds)}, pass {' or '.join(calls)}."
    ]
    read = [load(path, sep=";", forms={"my column": form}) for form in forms]
    assert {declaration(each) for each in read} == {f'"My Column" {kind}, s STRING' for kind in kinds}
    for form, each in zip(forms, read, strict=True):
        declared = declaration(each).removesuffix(", s STRING")
        assert tuples(load(path, declared, sep=";", forms={"My Column": form})) == tuples(each.drop(columns="s"))
        with pytest.raises(Error, match=f"row 1 .*{re.escape(' or '.join(calls))}, or declare another type"):
            load(path, declared, sep=";")


@pytest.mark.parametrize(
    "cells", [["31.02.2024"], ["1.2.3"], ["73,44", "none"], ["1,2,3"], ["1.1.24", "50%"], ["1,234%"]]
)
def test_what_only_begins_like_a_number_gets_no_note(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, cells: list[str]
) -> None:
    """A column of text in which one value is neither a date nor a number, or a date that no calendar has, is text."""
    with caplog.at_level(logging.INFO, "sharedstate_lite"):
        load(written(tmp_path, "a person csv", "\n".join(["v;s", *(f"{cell};a" for cell in cells)])), sep=";")
    assert caplog.messages == []


EXCEPTIONS = [
    (
        ["1", "2", "n/a", "4", "-"],
        "row 3 (line 4)",
        "'n/a' is not a number such as 1234.5",
        "3 of its values are numbers",
    ),
    (["", '"1,234"', "n/a", "7.5"], "row 2 (line 3)", "'1,234' is not a number such as 1234.5", "2 of its values are"),
    (
        ["2024-01-31", "soon", "2024-02-01 12:30"],
        "row 2 (line 3)",
        "'soon' is not a date such as 2024-01-31",
        "2 of its",
    ),
]


@pytest.mark.parametrize(("cells", "place", "odd", "count"), EXCEPTIONS)
def test_a_note_names_the_first_cell_that_makes_a_column_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, cells: list[str], place: str, odd: str, count: str
) -> None:
    """If more than half of the values are numbers or dates, one line names the column, the cell and its line."""
    path = written(tmp_path, "a person csv", "\n".join(["k,v", *(f"a,{cell}" for cell in cells)]))
    with caplog.at_level(logging.INFO, "sharedstate_lite"):
        assert declaration(load(path)) == "k STRING, v STRING"
    (said,) = caplog.messages
    assert said.startswith(f"{path}, {place}, column v: {odd}, so the column is loaded as STRING. {count}")
    path.rename(tmp_path / "2.csv")
    (tmp_path / "1.csv").write_text(f"k,v\na,{cells[0]}\n")
    caplog.clear()
    with caplog.at_level(logging.INFO, "sharedstate_lite"):
        load(tmp_path)
    assert caplog.messages[0].startswith(f"{tmp_path / '2.csv'}, {place}, column v: {odd}")


def test_a_note_shows_a_value_that_is_not_plain(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Of 999 and 1,234, the second one is the reason for the note."""
    with caplog.at_level(logging.INFO, "sharedstate_lite"):
        load(written(tmp_path, "a person csv", 'v,k\n999,a\n"1,234",b\n'))
    assert "all of its values look like '1,234'" in caplog.messages[0]


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
    "Excel, a date of no calendar, csv": (
        "d;x\n31.2.2024;a\n",
        {"sep": ";", "forms": {"d": "31.1.2024"}},
        "row 1 .*column d: '2024-02-31' is not a valid DATE",
    ),
    "Excel, another form, csv": (
        "x;s\n1,5;a\n1.5;b\n",
        {"sep": ";", "forms": {"x": "1.234,5"}},
        r"row 2 \(line 3\), column x: '1.5' is not written in the form '1.234,5'",
    ),
    "Excel, no such column, csv": ("x,y\n1,2\n", {"forms": {"z": "50%"}}, "forms contains z, .* columns are x, y"),
    "Arrow, a form, parquet": (by_arrow(pa.array(["50%"])), {"forms": {"v0": "50%"}}, "column v0 is not text in a CSV"),
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
