"""``sharedstate price``: predictions against the engines, causes of bad guesses, the page, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shop import RELATIONS, VIEWS
from support import examples
from test_own_why import shop

from sharedstate_lite.own import predict, price
from sharedstate_lite.own.page import body, chart
from sharedstate_lite.own.predict import CACHE, CORRELATION, DISTINCT, FILTER, SKEW, Spectrum, inverse
from sharedstate_lite.own.price import Price, main, q_error
from sharedstate_lite.own.statistics import FREQUENT, SAMPLE, Statistics
from sharedstate_lite.plan.nodes import Column, Type
from sharedstate_lite.sql.catalog import Catalog
from sharedstate_lite.storage.encoding import NULL, Dictionary

DOCS = Path(__file__).resolve().parents[2] / "docs"
SCHEMA = json.loads((DOCS / "price.schema.json").read_text("utf-8"))
RANDOM = np.random.default_rng


def priced(sql: str, tables: dict[str, pd.DataFrame], schema: dict[str, str], **how: Any) -> Price:
    """Predict and measure the views of a script over tables."""
    catalog = Catalog(**schema)
    for each in filter(str.strip, sql.split(";")):
        catalog.view(each)
    found = Price.of(catalog, {name: table.assign(diff=1) for name, table in tables.items()}, **how)
    found.measure()
    return found


def test_the_page_shows_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The Python code of docs/price.md writes the files, and its command prints what the page shows."""
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "price.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    exec(code, {})
    shown = re.findall(r"^    \$ (.*)\n((?:    (?!\$).*\n|\n(?=    ))*)", text, re.M)
    assert [command.split()[0] for command, _ in shown] == ["cat", "sharedstate"]
    assert Path("view.sql").read_text() == re.sub(r"^    ", "", shown[0][1], flags=re.M)
    assert main(shown[1][0].split()[2:]) == 0
    assert capsys.readouterr().out == re.sub(r"^    ", "", shown[1][1], flags=re.M)


WORDS = st.sampled_from(["a", "b", "c", None])
NUMBERS = st.sampled_from([0, 1, 2, 3, None])
VALUES = {"STRING": WORDS, "INT": NUMBERS, "BIGINT": NUMBERS, "DOUBLE": st.sampled_from([0.5, 1.0, 2.25, None])}
DTYPES = {"STRING": "object", "INT": "Int32", "BIGINT": "Int64", "DOUBLE": "Float64"}


@st.composite
def tables(draw: st.DrawFn) -> dict[str, pd.DataFrame]:
    """Up to eight rows of each relation of tests/shop.py."""
    found = {}
    for name, text in RELATIONS.items():
        columns = [column.strip().split() for column in text.split(",")]
        rows = draw(st.lists(st.tuples(*(VALUES[kind] for _, kind in columns)), min_size=1, max_size=8))
        frame = pd.DataFrame(rows, columns=[column for column, _ in columns], dtype=object)
        found[name] = frame.astype({column: DTYPES[kind] for column, kind in columns})
    return found


@examples(3)
@given(given=tables(), share=st.sampled_from([0.3, 1.0]))
def test_what_is_sampled_whole_is_exact(given: dict[str, pd.DataFrame], share: float) -> None:
    """Of small tables every row is in the sample, so full and shared state are predicted to the row and the byte.

    The parts of every strategy are named before the run. Limbs, whose number depends on sums, are near.
    """
    found = priced(";".join(VIEWS), given, RELATIONS, read=share, cut=3)
    for kind, strategy in found.strategies.items():
        assert {p.part.operator for p in strategy.parts} == strategy.measured_parts
        for p in strategy.parts:
            if kind != "partial" and "limbs" not in p.part.operator:
                assert (p.rows, p.bytes) == p.measured, (kind, p.part.operator)
            elif kind != "partial":
                assert q_error(p.rows, p.measured[0]) < 2


def worst(found: Price) -> tuple[str, str]:
    """The part that was guessed worst, and the cause."""
    _, _, part, _ = found.worst()[0]
    return part.part.operator, part.cause


def test_skew() -> None:
    """A few rows of the sample have most of the join's rows."""
    rare = np.where(np.arange(20_000) % 500 == 0, 0, np.arange(20_000))
    given = {
        "a": pd.DataFrame({"k": rare, "x": np.arange(20_000)}),
        "b": pd.DataFrame({"k": np.append(np.zeros(2_500, int), np.arange(1, 2_500)), "y": np.arange(4_999)}),
    }
    found = priced(
        "CREATE VIEW v AS SELECT a.x, b.y FROM a JOIN b ON a.k = b.k",
        given,
        {"a": "k BIGINT, x BIGINT", "b": "k BIGINT, y BIGINT"},
    )
    assert worst(found)[1] == SKEW


def test_correlation() -> None:
    """The second column nearly follows from the first one: far fewer pairs than values of one times the other."""
    x = RANDOM(1).integers(0, 3_000, 20_000)
    given = {"t": pd.DataFrame({"x": x, "y": x // 2 + RANDOM(2).integers(0, 2, 20_000), "id": np.arange(20_000)})}
    schema = {"t": "x BIGINT, y BIGINT, id BIGINT"}
    found = priced("CREATE VIEW v AS SELECT DISTINCT x, y FROM t", given, schema, read=1.0)
    q, _, part, _ = found.worst()[0]
    assert part.cause == CORRELATION and q < 2
    assert part.measured[0] < 20_000 * 0.5  # without the sample, all pairs would differ


def test_distinct_values_guessed() -> None:
    """The values of an expression have no statistics."""
    given = {"t": pd.DataFrame({"x": RANDOM(1).integers(0, 10**9, 20_000)})}
    found = priced(
        "CREATE VIEW v AS SELECT x % 7919 AS y, COUNT(*) AS n FROM t GROUP BY x % 7919", given, {"t": "x BIGINT"}
    )
    assert worst(found)[1] == DISTINCT


def test_filter_sampled() -> None:
    """About 20 rows of the sample pass the filter."""
    given = {"t": pd.DataFrame({"x": RANDOM(1).integers(0, 100, 20_000), "id": np.arange(20_000)})}
    found = priced("CREATE VIEW v AS SELECT id, x FROM t WHERE x = 5", given, {"t": "x BIGINT, id BIGINT"})
    assert worst(found) == ("v", FILTER)


def test_cache_drawn() -> None:
    """One key in a hundred is read, and about 20 rows of the sample have such a key."""
    given = {"t": pd.DataFrame({"k": RANDOM(1).integers(0, 5_000, 20_000), "id": np.arange(20_000)})}
    found = priced("CREATE VIEW v AS SELECT k, id FROM t", given, {"t": "k BIGINT, id BIGINT"}, read=0.01)
    assert worst(found) == ("v", CACHE)
    (part,) = (p for p in found.strategies["partial"].parts if p.part.operator == "v")
    assert 0 < part.measured[0] < 1_000  # about a hundredth of 20,000
    lines = re.findall(r"^  ([\d.]+)  \S+ .*: ([\d,]+) (rows|bytes), not ([\d,]+)", repr(found), re.M)
    worst_of = [(w["unit"], w["predicted"], w["measured"]) for w in found.as_json()["worst"]]
    numbers = [(unit, int(p.replace(",", "")), int(m.replace(",", ""))) for _, p, unit, m in lines]
    assert numbers == worst_of and numbers
    assert [q for q, *_ in lines] == [f"{q_error(p, m):.2f}" for _, p, m in numbers]


def test_views_share_what_they_are_priced_for() -> None:
    """Two views in one file are priced together: under shared state they read the same arrangement."""
    given = {"t": pd.DataFrame({"k": np.arange(500) % 50, "x": np.arange(500)})}
    one = "CREATE VIEW most AS SELECT k, MAX(x) AS m FROM t GROUP BY k;"
    two = f"{one}CREATE VIEW least AS SELECT k, MIN(x) AS m FROM t GROUP BY k;"
    for kind, added in (("full", 550), ("shared", 50)):
        rows = [
            priced(sql, given, {"t": "k BIGINT, x BIGINT"}).strategies[kind].amounts("working state", "rows")
            for sql in (one, two)
        ]
        (predicted, _), (both, measured) = rows
        assert both == measured and both - predicted == added


def test_a_view_that_partial_state_cannot_maintain() -> None:
    """It is left out with the reason, and the others are priced."""
    given = {"t": pd.DataFrame({"k": [1, 2], "x": [3, 4]})}
    sql = "CREATE VIEW a AS SELECT k + 1 AS l, x FROM t; CREATE VIEW b AS SELECT k, x FROM t"
    found = priced(sql, given, {"t": "k BIGINT, x BIGINT"})
    partial = found.strategies["partial"]
    assert list(partial.unable) == ["a"] and "b" in partial.measured_parts
    assert re.findall(r"^(\w+) +stored in all \*|^(\w+) \* without a: ", repr(found), re.M) == [
        ("partial", ""), ("", "partial"),
    ]  # fmt: skip
    shown = body(found.as_json(), "")
    assert shown.count("stored in all *<") == 1 and "<p>partial * without a: " in shown
    assert re.findall(r"(\w+), \w+: [\d,]+ \*", chart(found.as_json()).words) == ["partial", "partial"]
    alone = priced(sql.split(";")[0], given, {"t": "k BIGINT, x BIGINT"})
    assert not alone.strategies["partial"].parts and "is computed" in repr(alone)
    assert "*" not in repr(alone)


@given(st.lists(st.tuples(st.sampled_from([1, 2, NULL]), st.integers(1, 3)), min_size=1, max_size=20))
def test_statistics(rows: list[tuple[int, int]]) -> None:
    """Rows, distinct values, NULLs, frequent values and the least and the greatest value are those of pandas."""
    words = np.array([[word for word, _ in rows], [n for _, n in rows]])
    schema = (Column("x", Type.BIGINT), Column("y", Type.BIGINT))
    found = Statistics.of(schema, words, np.ones(len(rows), dtype=np.int64), Dictionary())
    column, x = found.columns[0], pd.Series(words[0]).replace(NULL, None)
    assert (found.rows, column.distinct, column.nulls) == (len(rows), x.nunique(), int(x.isna().sum()))
    assert dict(zip(column.frequent.tolist(), column.counts.tolist(), strict=True)) == x.value_counts().to_dict()
    assert column.edges.tolist() == ([x.min(), x.max()] if column.distinct else [])
    assert len(found.sample) == len(rows)


def test_a_large_table_is_sampled() -> None:
    """2,000 different rows, and the hundred most frequent values."""
    words = np.arange(10_000)[None] // np.array([[3]])
    found = Statistics.of((Column("x", Type.BIGINT),), words, np.ones(10_000, dtype=np.int64), Dictionary())
    assert len(set(found.sample.tolist())) == SAMPLE and len(found.columns[0].frequent) == FREQUENT


def test_the_formula() -> None:
    """N rows over D values have D (1 - (1 - 1/D)^N) of them; pairs of columns multiply; D is found back."""
    even = Spectrum(np.array([0.01]), np.array([100.0]))
    assert even.distinct(50) == pytest.approx(100 * (1 - 0.99**50))
    assert even.times(even).distinct(500) == pytest.approx(10_000 * (1 - (1 - 1e-4) ** 500))
    assert inverse(float(even.distinct(50)), 50) == pytest.approx(100, rel=0.02)
    assert inverse(0, 0) == 0 and inverse(20, 20) > 1e6
    skewed = Spectrum(np.array([0.5, 0.5 / 99]), np.array([1.0, 99.0]))
    drawn = RANDOM(1).choice(100, (200, 60), p=[0.5, *[0.5 / 99] * 99])
    assert skewed.distinct(60) == pytest.approx(np.mean([len(set(each)) for each in drawn.tolist()]), rel=0.03)


@pytest.mark.parametrize("skewed", [False, True])
def test_large_tables_are_near(skewed: bool) -> None:
    """The totals of a join with a group over 30,000 visits are within 1.2, under each strategy."""
    random = RANDOM(3)
    chance = 1 / np.arange(1, 1_001)
    product = random.choice(1_000, 30_000, p=chance / chance.sum() if skewed else None)
    given = {
        "visit": pd.DataFrame(
            {"product": product, "user": random.integers(0, 5_000, 30_000), "length": random.integers(0, 300, 30_000)}
        ),
        "info": pd.DataFrame({"product": np.arange(1_000), "category": random.integers(0, 100, 1_000)}),
    }
    schema = {"visit": "product BIGINT, user BIGINT, length BIGINT", "info": "product BIGINT, category BIGINT"}
    sql = "CREATE VIEW v AS SELECT category, MAX(length) AS m FROM info JOIN visit USING (product) GROUP BY category"
    found = priced(sql, given, schema)
    for strategy in found.strategies.values():
        for unit in ("rows", "bytes"):
            predicted, measured = strategy.amounts("stored in all", unit)
            assert measured is not None and q_error(predicted, measured) < 1.2


def test_json_and_html(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The object follows docs/price.schema.json. The page has a chart and its table, and loads nothing."""
    path = tmp_path / "price.html"
    assert main([*shop(tmp_path), "--json", "--html", str(path)]) == 0
    told = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(SCHEMA).validate(told)
    assert told["epochs"] == 3 and told["strategies"]["full"]["bill"]["durable inputs"]["rows"]["measured"] == 6
    page = path.read_text("utf-8")
    assert page.count("<svg") == 1 and page.count("<caption>") >= 2
    assert not re.search(r"src=|href=|@import|url\(", page)
    total = told["strategies"]["shared"]["bill"]["stored in all"]["bytes"]["measured"]
    assert f"<td>{total:,}</td>" in page


def test_each_byte_is_once_in_the_chart() -> None:
    """A bar is as long as what the strategy stores in all, although parts are durable inputs and working state."""
    kinds = [f"category {n % 9}" for n in range(50)]
    given = {
        "info": pd.DataFrame({"product": np.arange(50), "category": kinds}),
        "visit": pd.DataFrame({"product": np.arange(400) % 50, "length": np.arange(400) % 77}),
    }
    sql = "CREATE VIEW v AS SELECT category, MAX(length) AS m FROM info JOIN visit USING (product) GROUP BY category"
    schema = {"info": "product BIGINT, category STRING", "visit": "product BIGINT, length BIGINT"}
    told = priced(sql, given, schema).as_json()
    picture, totals = chart(told), list[int]()
    for kind, strategy in told["strategies"].items():
        assert kind == "full" or any(part["bill"] == ["durable", "working"] for part in strategy["parts"])
        for side in ("predicted", "measured"):
            totals.append(strategy["bill"]["stored in all"]["bytes"][side])
            assert f"{kind}, {side}: {totals[-1]:,}" in picture.words
    long: dict[float, float] = {}
    for y, width in re.findall(r'<rect x="[\d.]+" y="([\d.]+)" width="([\d.]+)" height="17"', picture.drawing.body):
        long[float(y)] = long.get(float(y), 0.0) + float(width)
    assert list(long.values()) == pytest.approx([560 * total / max(totals) for total in totals], abs=0.5)


def test_without_a_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C keeps the prediction; so do views of which an operator is too large, unless --force is given."""
    files = shop(tmp_path)

    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as change:
        change.setattr(Price, "measure", stopped)
        assert main([*files, "--json", "--html", str(tmp_path / "price.html")]) == 130
    printed = capsys.readouterr()
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(printed.out))
    assert "stopped" in printed.err
    monkeypatch.setattr(price, "MOST", 3)
    assert main(files) == 0
    printed = capsys.readouterr()
    assert "not measured: an operator has about 4 rows; --force" in printed.err and "durable inputs" in printed.out
    assert main([*files, "--force"]) == 0 and not capsys.readouterr().err
    with monkeypatch.context() as change:
        change.setattr(price, "catalog", stopped)
        assert main(files) == 130


@pytest.mark.parametrize(
    ("change", "more", "said"),
    [
        ({}, ["--read", "10"], "--read 10: write a share of the keys above 0% and up to 100%, such as 10%"),
        ({}, ["--read", "many%"], "--read many%: write a share"),
        ({}, ["--read", "101%"], "--read 101%: write a share"),
        ({}, ["--epochs", "0"], "--epochs 0: write a number of epochs from 1 to 10,000"),
        ({"sql": "SELECT 1"}, [], "CREATE VIEW"),
        ({"sql": "CREATE VIEW v AS SELECT UPPER(product) AS p FROM info"}, [], "the function UPPER is not supported"),
        ({"sql": "CREATE VIEW v AS SELECT product FROM shop"}, [], "there is no relation or view named shop"),
        ({"visit_csv": "product,user\nPotato,Ann\n"}, [], "length"),
        ({"visit_csv": "product,user,length,epoch\nPotato,Ann,60,soon\n"}, [], "numbers of epochs"),
        ({"visit_csv": "product,user,length,diff\nPotato,Ann,60,-1\n"}, [], "cannot be retracted"),
        ({}, ["--html", "/no/folder/price.html"], "--html /no/folder/price.html: no file can be written here"),
        ({}, ["--html", "/"], "--html /: no file can be written here"),
    ],
)  # fmt: skip
def test_what_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    change: dict[str, str],
    more: list[str],
    said: str,
) -> None:
    """One line says what was wrong, before the engines run; the exit status is 2."""
    monkeypatch.setattr(Price, "measure", lambda *_: pytest.fail("the engines run"))
    assert main([*shop(tmp_path, **change), *more]) == 2
    printed = capsys.readouterr()
    assert said in printed.err and not printed.out and printed.err.count("\n") == 1


def test_a_file_that_no_view_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is not priced."""
    assert main(shop(tmp_path, "CREATE VIEW v AS SELECT product, length FROM visit")) == 0
    assert "over visit (4 rows)" in capsys.readouterr().out


def test_drawn_keys_do_not_depend_on_the_dictionary() -> None:
    """A share of the keys is drawn, by their values; of few keys at least one."""
    one, other = Dictionary(), Dictionary()
    other.codes(["z", "y", "x"])
    names = [f"key {n}" for n in range(2_000)]
    masks = [predict.drawn_keys(d.codes(names)[None], (Type.STRING,), 0.1, d) for d in (one, other)]
    assert masks[0].tolist() == masks[1].tolist() and 150 < masks[0].sum() < 250
    assert predict.drawn_keys(one.codes(names[:3])[None], (Type.STRING,), 1e-6, one).sum() == 1
