"""A person's own files: what is taken, what is refused, and how it is said."""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given

import sharedstate_lite as ss
from sharedstate_lite.data import SCHEMA, declaration, load, seed
from sharedstate_lite.errors import Error

SEED = Path(__file__).resolve().parents[2] / "data" / "seed"


def file(folder: Path, content: str | bytes, name: str = "mine.csv") -> Path:
    """A file with this content."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def cells(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    """The rows as plain values, None where NULL."""
    rows = frame.astype(object).where(frame.notna(), None)
    return [tuple(row) for row in rows.itertuples(index=False, name=None)]


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first pieces of code of docs/data.md run one after the other, given a person's file."""
    blocks = (SEED.parents[1] / "docs" / "data.md").read_text().split("```python\n")[1:3]
    file(tmp_path, (SEED / "visit.csv").read_text(), "visits.csv")
    (tmp_path / "data").symlink_to(SEED.parent)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block.partition("```")[0], names)
    assert len(names["engine"].read("most")) == 3 and len(names["mine"]) == 5


# --- the seed ----------------------------------------------------------------


def test_the_seed_is_as_printed() -> None:
    """The two tables have the seed's rows in the seed's order, Eve's visit last, and its types."""
    tables = seed()
    assert cells(tables["info"]) == [
        ("Apple", "Fruit"),
        ("Banana", "Fruit"),
        ("Carrot", "Vegetable"),
        ("Potato", "Vegetable"),
    ]
    assert cells(tables["visit"]) == [
        ("Apple", "Alice", 10),
        ("Apple", "Bob", 20),
        ("Carrot", "Bob", 50),
        ("Banana", "Alice", 40),
        ("Potato", "Eve", 60),
    ]
    assert {name: declaration(table) for name, table in tables.items()} == SCHEMA


def test_the_seed_goes_through_an_engine() -> None:
    """Loaded tables are declared and stepped as they are, and the view answers as the seed says."""
    tables = {name: load(SEED / f"{name}.csv") for name in SCHEMA}
    catalog = ss.Catalog(**{name: declaration(table) for name, table in tables.items()})
    view = catalog.view(
        "CREATE VIEW result AS SELECT category, MAX(length) AS max_length "
        "FROM info JOIN visit USING (product) GROUP BY category"
    )
    engine = ss.engine("shared", [view])
    engine.step(tables)
    assert cells(engine.read("result")) == [("Fruit", 40), ("Vegetable", 60)]


@pytest.mark.parametrize(
    ("table", "named"),
    [
        (pd.DataFrame([[1, 2]], columns=["a", "A"]), r"two columns are named a \(ignoring case\)"),
        (pa.table([[1], [2]], names=["a", "a"]), "two columns are named a"),
        (pd.DataFrame({"diff": [1]}), "needs a column other than diff and time"),
        (pd.DataFrame({"": [1]}), "a column has no name"),
        (pa.table({"a": [[1]]}), "column a has the unsupported type list.*; use STRING"),
        (pd.DataFrame({"a": [1, "x"]}), r"values of several types .*column a.*\. Convert it to one type first"),
        ([1], "list is not a table"),
    ],
)
def test_a_table_without_a_declaration(table: Any, named: str) -> None:
    """A table that no catalog can declare is refused with the cause, not with an error about a schema."""
    with pytest.raises(Error, match=f"^declaration: .*{named}") as caught:
        declaration(table)
    assert "schema" not in str(caught.value)


# --- CSV ---------------------------------------------------------------------

TYPED = st.tuples(
    st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), max_size=8),
    st.none() | st.integers(-(2**31), 2**31 - 1),
    st.none() | st.integers(-(2**63) + 1, 2**63 - 1),
    st.none() | st.floats(allow_nan=False, allow_infinity=False),
    st.none() | st.booleans(),
    st.none() | st.dates(),
    st.none() | st.datetimes(min_value=datetime.datetime(1600, 1, 1), max_value=datetime.datetime(2200, 1, 1)),
)
DECLARED = 's STRING, i INT, "b i g" BIGINT, x DOUBLE, t BOOLEAN, d DATE, m TIMESTAMP'


@given(st.lists(TYPED, max_size=20))
def test_what_was_written_is_read(rows: list[tuple[Any, ...]]) -> None:
    """Values of every type, NULLs, quotes, separators and all of Unicode come back from CSV as they were."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["s", "i", "b i g", "x", "t", "d", "m"])
    # The csv module writes NULL and the empty string alike; quotes make the difference.
    lines = [text.getvalue()]
    for row in rows:
        line = io.StringIO()
        csv.writer(line).writerow(row[1:])
        head = "" if row[0] is None else '"' + row[0].replace('"', '""') + '"'
        lines.append(f"{head},{line.getvalue()}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mine.csv"
        path.write_text("".join(lines), encoding="utf-8", newline="")
        loaded = load(path, DECLARED)
    assert cells(loaded.drop(columns="diff")) == [
        tuple(pd.Timestamp(v) if isinstance(v, datetime.datetime) else v for v in row) for row in rows
    ]
    assert [str(dtype) for dtype in loaded.dtypes] == [
        "string",
        "Int32",
        "Int64",
        "Float64",
        "boolean",
        "date32[day][pyarrow]",
        "timestamp[us][pyarrow]",
        "int64",
    ]
    assert declaration(loaded) == DECLARED


INFERRED = [
    ("1|-2|+3|", "INT", [1, -2, 3, None]),
    ("007|12", "INT", [7, 12]),
    ("1|3000000000", "BIGINT", [1, 3_000_000_000]),
    ("1|99999999999999999999", "STRING", ["1", "99999999999999999999"]),
    ("1|2.5|-3e2|.5|4.", "DOUBLE", [1.0, 2.5, -300.0, 0.5, 4.0]),
    ("1.5|1e999", "STRING", ["1.5", "1e999"]),
    ("true|FALSE|True|", "BOOLEAN", [True, False, True, None]),
    ("yes|no", "STRING", ["yes", "no"]),
    ("NA|null|nan|None|NULL|#N/A", "STRING", ["NA", "null", "nan", "None", "NULL", "#N/A"]),
    ("1|NA", "STRING", ["1", "NA"]),
    ("1.5|nan", "STRING", ["1.5", "nan"]),
    ('""|a|', "STRING", ["", "a", None]),
    ('""|5|', "INT", [None, 5, None]),
    ("2024-02-29|2023-12-31", "DATE", [datetime.date(2024, 2, 29), datetime.date(2023, 12, 31)]),
    ("2024-02-30|2023-12-31", "STRING", ["2024-02-30", "2023-12-31"]),
    ("2024-01-01|2024-01-01 10:30", "TIMESTAMP", [pd.Timestamp("2024-01-01"), pd.Timestamp("2024-01-01 10:30")]),
    ("2024-01-01T00:30:00+02:00", "TIMESTAMP", [pd.Timestamp("2023-12-31 22:30")]),
    ("2024-01-01 00:30:00.123456Z", "TIMESTAMP", [pd.Timestamp("2024-01-01 00:30:00.123456")]),
    ("2024-01-01|0000-01-01", "STRING", ["2024-01-01", "0000-01-01"]),
    ("2024-01-01 00:30+24:00", "STRING", ["2024-01-01 00:30+24:00"]),
    ("2024-01-01 00:30+02:60", "STRING", ["2024-01-01 00:30+02:60"]),
    ("0001-01-01 00:00:00+02:00", "STRING", ["0001-01-01 00:00:00+02:00"]),
    (
        "9999-12-31 23:59:59|0001-01-01 00:00:00",
        "TIMESTAMP",
        [pd.Timestamp("9999-12-31 23:59:59"), pd.Timestamp("0001-01-01")],
    ),
    ("01/02/2024", "STRING", ["01/02/2024"]),
    ('"1,000"', "STRING", ["1,000"]),
    (" 12 | 7", "INT", [12, 7]),
    (" a ", "STRING", [" a "]),
    ("|", "STRING", [None, None]),
]


@pytest.mark.parametrize(("column", "kind", "values"), INFERRED, ids=[column for column, _, _ in INFERRED])
def test_types_are_read_off_the_cells(tmp_path: Path, column: str, kind: str, values: list[Any]) -> None:
    """A column has the narrowest type that every cell is a plain value of; nothing is guessed to be NULL."""
    loaded = load(file(tmp_path, "k,c\n" + "".join(f"x,{cell}\n" for cell in column.split("|"))))
    assert declaration(loaded) == f"k STRING, c {kind}"
    assert [row[1] for row in cells(loaded)] == values


def test_what_is_declared_is_kept(tmp_path: Path) -> None:
    """A declaration chooses columns, their order and their types: zeros lead in a STRING, and NaN is a NULL DOUBLE."""
    path = file(tmp_path, "Code,length,other,x\n007,1,a,nan\n,2,b,1\n")
    loaded = load(path, 'x DOUBLE, "code" STRING, length BIGINT')
    assert list(loaded.columns) == ["x", "code", "length", "diff"]
    assert cells(loaded) == [(None, "007", 1, 1), (1.0, None, 2, 1)]


def test_files_as_programs_write_them(tmp_path: Path) -> None:
    """A byte order mark, Windows line ends, blank lines, line ends in quotes, tabs, semicolons and gzip are read."""
    expected = [(1, "x\ny", 1), (2, "é", 1)]
    text = 'a, b\n1,"x\ny"\n\n2,é\n'
    assert cells(load(file(tmp_path, text))) == expected
    assert cells(load(file(tmp_path, "\ufeff" + text))) == expected
    assert cells(load(file(tmp_path, text.replace("\n", "\r\n").replace("x\r\ny", "x\ny")))) == expected
    assert cells(load(file(tmp_path, text.replace(",", "\t"), "mine.TSV"))) == expected
    assert cells(load(file(tmp_path, text.replace(",", ";")), sep=";")) == expected
    assert cells(load(file(tmp_path, gzip.compress(text.encode()), "mine.csv.gz"))) == expected
    assert list(load(file(tmp_path, "a,b")).columns) == ["a", "b", "diff"]
    assert load(file(tmp_path, "a,b\n"), "b INT").dtypes["b"] == "Int32"


def test_diffs_are_taken_from_the_file(tmp_path: Path) -> None:
    """A column diff says how often a row comes or goes, and is no column of the relation."""
    loaded = load(file(tmp_path, "a,Diff\n1,1\n2,-2\n"))
    assert cells(loaded) == [(1, 1), (2, -2)] and declaration(loaded) == "a INT"
    changes = load(file(tmp_path, "a,time,diff\n1,4,1\n2,4,-1\n"))
    assert list(changes.columns) == ["a", "time", "diff"] and declaration(changes) == "a INT"
    renamed = load(file(tmp_path, "a,time\n1,2024-01-01\n"), rename={"time": "at"})
    assert declaration(renamed) == "a INT, at DATE"


WRONG: list[tuple[str | bytes, dict[str, Any], tuple[str, ...]]] = [
    ("", {}, ("mine.csv: the file is empty",)),
    ("\n\n", {}, ("the file is empty",)),
    ("a,b\n1,2\n3\n", {}, ("row 2 (line 3)", "2 columns", "1 fields.")),
    ("a,b\n1,2\n\n3,4,5\n", {}, ("line 4",)),
    ('a,b\n1,"x\ny"\n3\n', {}, ("line 4",)),
    (
        "p,length\n" + "x,1\n" * 16 + "x,abc\n",
        {"schema": "length INT"},
        ("row 17 (line 18), column length", "'abc'", "INT"),
    ),
    ('p,length\n"x\ny",1\nx,1.5\n', {"schema": "length INT"}, ("row 2 (line 4), column length", "'1.5'")),
    ("a\n1\n3000000000\n", {"schema": "a INT"}, ("row 2", "is out of range for INT")),
    ("a\n-9223372036854775808\n", {"schema": "a BIGINT"}, ("row 1", "is out of range for BIGINT")),
    ("a\n1e999\n", {"schema": "a DOUBLE"}, ("row 1", "DOUBLE")),
    ("a\nmaybe\n", {"schema": "a BOOLEAN"}, ("row 1", "BOOLEAN")),
    ("a\n2024-13-01\n", {"schema": "a DATE"}, ("row 1", "DATE")),
    (
        "a\n2024-01-01 25:00Z\n",
        {"schema": "a TIMESTAMP"},
        ("row 1", "'2024-01-01 25:00Z' is not a valid TIMESTAMP: expected a timestamp such as", "12:30:00+02:00"),
    ),
    (
        "a\n2024-01-31 12:30:00.1234567\n",
        {"schema": "a TIMESTAMP"},
        ("row 1", "'2024-01-31 12:30:00.1234567' is not a valid TIMESTAMP", "with at most six decimal places. Correct"),
    ),
    ("a\n2024-01-01\n0000-01-01\n", {"schema": "a DATE"}, ("row 2 (line 3), column a: '0000-01-01'", "DATE")),
    ("a\n0000-01-01 00:00:00\n", {"schema": "a TIMESTAMP"}, ("row 1", "'0000-01-01 00:00:00'")),
    ("a\n2024-01-01 00:30+99:99\n", {"schema": "a TIMESTAMP"}, ("row 1", "is not a valid TIMESTAMP")),
    (
        "a\n0001-01-01 00:00+02:00\n",
        {"schema": "a TIMESTAMP"},
        ("row 1", "converted to UTC", "the year must be between 1 and 9999"),
    ),
    (
        "a\n9999-12-31 23:59-02:00\n",
        {"schema": "a TIMESTAMP"},
        ("row 1", "converted to UTC", "the year must be between 1 and 9999"),
    ),
    (b"a,b\n1,2\n3,\xe9\n", {}, ("line 3", "not UTF-8", "0xe9")),
    (b"a,\xe9\n1,2\n", {}, ("line 1", "not UTF-8")),
    ("a,b\n1,2\n".encode("utf-16"), {}, ("not UTF-8", "UTF-16")),
    (
        'a,b\n1,2\n3,"4\n5,6\n',
        {},
        ("row 2 (line 3)", "a quote is opened but never closed", "Close it, or double it if"),
    ),
    ("a;b\n1;2\n", {}, ("';'", "sep=';'")),
    ("a,A\n1,2\n", {}, ("two columns named A",)),
    ("a,,c\n1,2,3\n", {}, ("line 1: column 2 has no name",)),
    ("a,time\n1,2\n", {}, ("name time is reserved", "rename={'time': 'at'}")),
    ("a,diff\n1,1\n2,0\n", {}, ("row 2 (line 3), column diff: 0",)),
    ("a,diff\n1,\n", {}, ("column diff: NULL",)),
    ("a,diff\n1,0.5\n", {}, ("column diff", "'0.5'")),
    ("a,b\n1,2\n", {"schema": "a INT, c INT"}, ("the file has no column c", "columns are a, b")),
    ("a,b\n1,2\n", {"schema": "a NUMBER"}, ("NUMBER",)),
    ("a,b\n1,2\n", {"schema": 5}, ("schema=5: a schema is a string such as 'product STRING, length INT'. Omit",)),
    ("a,b\n1,2\n", {"schema": ""}, ("schema='': a schema is a string",)),
    ("a,b\n1,2\n", {"schema": " "}, ("schema=' ': a schema is a string",)),
    ("a,b\n1,2\n", {"schema": SCHEMA}, ("schema={'info': ", "a schema is a string")),
    ("a,b\n1,2\n", {"rename": {"c": "d"}}, ("c, which is not a column",)),
    ("a,b\n1,2\n", {"rename": {"a": "B"}}, ("the same name",)),
    ("a,b\n1,2\n", {"rename": ["a"]}, ("rename=['a']",)),
    ("a,b\n1,2\n", {"forms": {"a": ["50%"]}}, ("forms={'a': ['50%']}", "The forms are '31.1.2024', ")),
    ("a,b\n1,2\n", {"forms": ["a"]}, ("forms=['a']",)),
    ("a,b\n1,2\n", {"sep": "::"}, ("sep='::'",)),
    ("a→b\n1→2\n", {"sep": "→"}, ("sep='→'", "ASCII")),
]


@pytest.mark.parametrize(("content", "options", "named"), WRONG, ids=[" ".join(named) for _, _, named in WRONG])
def test_a_wrong_csv_is_one_error_that_says_where(
    tmp_path: Path, content: str | bytes, options: dict[str, Any], named: tuple[str, ...]
) -> None:
    """What is wrong is named: file, line, row, column, value and rule."""
    path = file(tmp_path, content)
    with pytest.raises(Error) as caught:
        load(path, **options)
    assert all(part in str(caught.value) for part in named), str(caught.value)
    assert any(name in str(caught.value) for name in ("mine.csv", "sep=", "rename=", "schema=", "forms="))


def test_a_path_that_is_no_table_is_refused(tmp_path: Path) -> None:
    """A missing file, an unknown ending, an empty folder, a broken gzip and a mixed folder are named."""
    for path, named in (
        (tmp_path / "missing.csv", "no such file"),
        (file(tmp_path, "x", "mine.xlsx"), "suffix is not one of .csv"),
        (file(tmp_path, "a\n1\n", "odd/mine.csv").with_name("other.txt"), "no such file"),
        (
            file(tmp_path, b"not gzip", "mine.csv.gz"),
            r"not a complete gzip file .*\. Compress it again, or remove \.gz",
        ),
        (file(tmp_path, gzip.compress(b"a\n1\n")[:-9], "half.csv.gz"), "not a complete gzip file"),
        (file(tmp_path, b"not parquet", "mine.parquet"), "cannot be read as Parquet"),
    ):
        with pytest.raises(Error, match=named) as caught:
            load(path)
        assert path.name in str(caught.value)
    for odd in (None, 5, "", "x" * 300, "~nobody-of-that-name/x.csv"):
        with pytest.raises(Error, match="is not a path"):
            load(odd)  # type: ignore[arg-type]
    (tmp_path / "none").mkdir()
    with pytest.raises(Error, match="does not contain a file to load"):
        load(tmp_path / "none")
    file(tmp_path, "x", "odd/notes.txt")
    with pytest.raises(Error, match="notes.txt: the suffix"):
        load(tmp_path / "odd")
    file(tmp_path, "a\n1\n", "mixed/one.csv")
    pyarrow.parquet.write_table(pa.table({"a": [1]}), tmp_path / "mixed" / "two.parquet")
    with pytest.raises(Error, match="both CSV and Parquet"):
        load(tmp_path / "mixed")
