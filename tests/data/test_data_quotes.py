"""Quotes in a CSV: which ones load, and which ones are refused with row and line."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import pandas as pd
import pytest

from sharedstate_lite.data import load
from sharedstate_lite.errors import Error

REFUSED = [
    ('a,b\n"the "big" one",1\n', "row 1 (line 2)"),
    ('a,b\n1,2\n\n"x\ny",2\n"x"y,1\n', "row 3 (line 6)"),
    ('a,b\n"x" ,1\n', "row 1 (line 2)"),
    ('a,b\n1,"x"""y"\n', "row 1 (line 2)"),
    ('a,b\n5" pipe,"x"y\n', "row 1 (line 2)"),
    ('a,"b"c\n1,2\n', "line 1"),
    # Each of these quotes alone could open or close a field.
    ('a,b,c\n"a,"b,"c",1\n', "row 1 (line 2)"),
]


@pytest.mark.parametrize(("content", "where"), REFUSED, ids=[content for content, _ in REFUSED])
@pytest.mark.parametrize("form", ["plain", "crlf", "bom", "tab", "gz"])
def test_a_quote_that_is_not_doubled_is_refused(tmp_path: Path, content: str, where: str, form: str) -> None:
    """Text after a closing quote is one error with file, row, line and rule, in every form of file."""
    path = tmp_path / ("mine.csv.gz" if form == "gz" else "mine.csv")
    content = content.replace("\n", "\r\n") if form == "crlf" else content
    content = content.replace(",", "\t") if form == "tab" else content
    written = content.encode("utf-8-sig" if form == "bom" else "utf-8")
    path.write_bytes(gzip.compress(written) if form == "gz" else written)
    with pytest.raises(Error) as caught:
        load(path, sep="\t" if form == "tab" else ",")
    assert str(caught.value) == (
        f"{path}, {where}: text follows a closing quote. Double each quote inside a quoted field, "
        'as in "the ""big"" one".'
    )


LOADED = [
    ('a,b\n"the ""big"" one","1,""2"\n', [('the "big" one', '1,"2')]),
    ('"a","b"\n"","x\ny"\n"""",""""""\n', [("", "x\ny"), ('"', '""')]),
    ('"a",b\r\n"x\r\ny",""\r\n"z","1"', [("x\r\ny", ""), ("z", "1")]),
    ('\ufeff"a",b\n"x",y\n', [("x", "y")]),
    ('a,b\n5" pipe,x"y"\n "x","y"\n', [('5" pipe', 'x"y"'), (' "x"', "y")]),
    (f'a,b\n5" pipe,"{"x" * 200_000}"\n', [('5" pipe', "x" * 200_000)]),
    ('a;b\n"x;";y\n', [("x;", "y")]),
    ('a\tb\n"x\t"\ty\n', [("x\t", "y")]),
]


@pytest.mark.parametrize(("content", "rows"), LOADED, ids=[content[:40] for content, _ in LOADED])
@pytest.mark.parametrize("packed", [False, True])
def test_correct_quotes_load(tmp_path: Path, content: str, rows: list[tuple[str, str]], packed: bool) -> None:
    """Doubled quotes, separators and line ends inside quotes, and quotes in an unquoted field are kept."""
    path = tmp_path / ("mine.csv.gz" if packed else "mine.csv")
    path.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
    sep = next(sep for sep in ",;\t" if sep in content.partition("\n")[0])
    loaded = load(path, "a STRING, b STRING", sep=sep)
    assert list(zip(loaded["a"], loaded["b"], strict=True)) == rows


def test_a_blank_line_is_no_row(tmp_path: Path) -> None:
    """A blank line is no row, also in a file of one column, where the csv module writes NULL as two quotes."""
    text = io.StringIO()
    csv.writer(text).writerows([["a"], [1], [None], [2]])
    path = tmp_path / "mine.csv"
    path.write_text(text.getvalue() + "\r\n3\r\n", newline="")
    assert load(path)["a"].tolist()[::2] == [1, 2] and load(path)["a"].isna().tolist() == [False, True, False, False]
    with path.open(newline="") as file:
        assert [row["a"] for row in csv.DictReader(file)] == ["1", "", "2", "3"]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("rows", ["", '"x",', "x,", '"x","y\n"\n"x",', ",", 'x,""', '"",'])
def test_the_last_line_needs_no_end(tmp_path: Path, rows: str, packed: bool) -> None:
    """A missing last line end changes nothing, nor whether an empty last cell is NULL."""
    path = tmp_path / ("mine.csv.gz" if packed else "mine.csv")
    tables = []
    for content in (f"a,b\n{rows}", f"a,b\n{rows}\n"):
        path.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
        tables.append(load(path, "a STRING, b STRING"))
    pd.testing.assert_frame_equal(*tables)
    assert tables[0]["b"].isna().tolist()[-1:] == [rows.endswith(",")] * bool(rows)
