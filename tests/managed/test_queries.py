"""SQL over state, against the states themselves and pandas (rules 27 and 28)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharedstate_lite import managed as m
from sharedstate_lite.errors import Error, SqlError, StateError, TimeError

VISITS = m.source("visit", "product STRING, user STRING, length INT", key="product")
BALANCED = "SELECT count(*) n FROM snapshot.total JOIN snapshot.seen USING (product) WHERE total <> seen"


class Count(m.Operator):
    """The visits of a product and their total length, and the lengths by user."""

    out = "product STRING, length INT"
    total = m.Value("BIGINT", default=0)
    lengths = m.Map("STRING", "STRUCT<n: BIGINT, all: LIST<INT>>")

    def row(self, key, row, out):  # type: ignore[no-untyped-def]
        """One visit."""
        self.total.set(self.total.get() + row["length"])
        before = self.lengths.get(row["user"]) or {"n": 0, "all": []}
        self.lengths.put(row["user"], {"n": before["n"] + 1, "all": [*before["all"], row["length"]]})
        out(key, row["length"])


class Again(m.Operator):
    """The same total, one operator later."""

    key = "product"
    out = "product STRING"
    seen = m.Reducing("BIGINT", "sum")

    def rows(self, batch, out):  # type: ignore[no-untyped-def]
        """The visits of an epoch."""
        self.seen.add(batch.keys, batch["length"])


def started() -> m.ManagedRun:
    """Two operators that hold the same totals."""
    return m.run([Count(), Again()], VISITS, workers=2, keep=3)


EPOCHS = [[("Apple", "Eve", 20), ("Potato", "Bob", 60)], [("Apple", "Bob", 5)], [("Fig", "Eve", 7)]]


def filled() -> m.ManagedRun:
    """The run after three epochs."""
    run = started()
    for rows in EPOCHS:
        run.step(rows)
    return run


def test_nested_state_is_duckdbs_nested_types() -> None:
    """A MAP is a map, a STRUCT a struct, a LIST a list."""
    found = filled().sql(
        "SELECT product, lengths['Eve'].n n, list_sum(lengths['Eve'].all) total FROM live.lengths ORDER BY product"
    )
    assert found.astype(object).where(found.notna(), None).values.tolist() == [
        ["Apple", 1, 20],
        ["Fig", 1, 7],
        ["Potato", None, None],
    ]


def test_live_is_now_and_snapshot_is_the_epoch_that_was_named() -> None:
    """A join of the two schemas; the names of tables work unqualified in the query, and in subqueries."""
    run = filled()
    older = "(SELECT product, total AS was FROM snapshot.total)"
    query = f"SELECT product, total.total - was FROM live.total JOIN {older} USING (product)"
    assert sorted(run.sql(query, at=1).values.tolist()) == [["Apple", 5], ["Potato", 0]]
    assert run.sql("SELECT sum(total) s FROM snapshot.total").s.tolist() == [92]
    assert run.sql("WITH t AS (SELECT * FROM live.total) SELECT count(*) n FROM t").n.tolist() == [3]


# --- any SELECT, against DuckDB's own tables -----------------------------------


class Last(m.Operator):
    """The last value of a key and all of them, once more under a name of SQL, and in another operator's case."""

    out = "k STRING, x INT"
    v = m.Value("BIGINT")
    seen = m.List("INT")
    group = m.Value("STRUCT<x: INT, y: STRING>")
    same = m.Value("INT")

    def row(self, key, row, out):  # type: ignore[no-untyped-def]
        """One value."""
        self.v.set(row["x"])
        self.seen.append(row["x"])
        self.group.set({"x": row["x"], "y": key.upper()})
        self.same.set(row["x"])
        out(key, row["x"])


class Other(m.Operator):
    """A state of another operator, whose name differs in case only."""

    key = "k"
    Same = m.Value("INT")

    def row(self, key, row, out):  # type: ignore[no-untyped-def]
        """One value, with the other sign."""
        self.Same.set(-row["x"])


TABLES = """
CREATE SCHEMA live; CREATE SCHEMA snapshot;
CREATE TABLE live.v(k VARCHAR, v BIGINT); INSERT INTO live.v VALUES ('a', 5), ('b', 2), ('c', 2);
CREATE TABLE snapshot.v(k VARCHAR, v BIGINT); INSERT INTO snapshot.v VALUES ('a', 1), ('b', 2);
CREATE TABLE live.seen(k VARCHAR, seen INT[]); INSERT INTO live.seen VALUES ('a', [1, 5]), ('b', [2]), ('c', [2]);
CREATE TABLE live."group"(k VARCHAR, "group" STRUCT(x INT, y VARCHAR));
INSERT INTO live."group" VALUES ('a', {x: 5, y: 'A'}), ('b', {x: 2, y: 'B'}), ('c', {x: 2, y: 'C'});
CREATE TABLE live."Last.same"(k VARCHAR, same INT); INSERT INTO live."Last.same" VALUES ('a', 5), ('b', 2), ('c', 2);
CREATE TABLE live."Other.Same"(k VARCHAR, Same INT);
INSERT INTO live."Other.Same" VALUES ('a', -5), ('b', -2), ('c', -2);
"""
RIGHT = """
SELECT count(*) AS n FROM (live.v a CROSS JOIN live.v b)
SELECT * FROM live.v a LEFT JOIN (live.v b JOIN live.v c ON b.v > c.v) ON a.k = b.k
SELECT * FROM (live.v a JOIN (live.v b LEFT JOIN snapshot.v c USING (k)) ON a.v = b.v)
SELECT a.k, b.v, c.v FROM live.v a JOIN live.v b ON a.v = b.v JOIN snapshot.v c ON b.k = c.k
SELECT * FROM live.v NATURAL JOIN live.seen
SELECT * FROM live.v FULL JOIN snapshot.v USING (k)
SELECT * FROM live.v RIGHT JOIN snapshot.v ON live.v.k = snapshot.v.k AND live.v.v <> snapshot.v.v
SELECT * FROM live.v SEMI JOIN snapshot.v USING (k)
SELECT * FROM live.v ANTI JOIN snapshot.v USING (k)
SELECT a.k FROM live.v a, live.v b WHERE a.v < b.v
SELECT * FROM live.v ASOF JOIN snapshot.v s ON live.v.k = s.k AND live.v.v >= s.v
SELECT * FROM live.v PIVOT (sum(v) FOR k IN ('a', 'b'))
SELECT * FROM (PIVOT live.v ON k IN ('a', 'c') USING max(v))
SELECT * FROM live.v UNPIVOT (n FOR what IN (v))
SELECT k, t.n FROM (SELECT k, v, v + 1 AS w FROM live.v) UNPIVOT (n FOR what IN (v, w)) t
SELECT count(*) FROM live.v TABLESAMPLE 0%
SELECT count(*) FROM live.v TABLESAMPLE 100%
SELECT count(*) FROM live.v USING SAMPLE 2 ROWS
SELECT * FROM live.v AS t(x, y)
SELECT t.y, s.v FROM live.v t(x, y) JOIN snapshot.v s ON t.x = s.k
SELECT live.v.k, v.v FROM live.v
SELECT v FROM live.v
SELECT K, "V" FROM LIVE."V"
SELECT "k" FROM live."v" WHERE "v" = 5
SELECT * FROM live."group"
SELECT "group".x + 1 AS n, "group".y FROM live."group" ORDER BY k DESC
SELECT * FROM live."Last.same" JOIN live."Other.Same" USING (k) WHERE "Other.Same".same < 0
WITH v AS (SELECT 7 AS n) SELECT * FROM v, live.v
WITH w AS (SELECT * FROM live.v), u AS (SELECT sum(v) AS total FROM w) SELECT k, v / total AS share FROM w, u
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < (SELECT max(v) FROM live.v)) SELECT * FROM r
SELECT * FROM live.v WHERE v > (SELECT avg(v) FROM live.v)
SELECT * FROM live.v o WHERE EXISTS (SELECT 1 FROM snapshot.v i WHERE i.k = o.k AND i.v <> o.v)
SELECT * FROM live.v WHERE (k, v) IN (SELECT k, v FROM snapshot.v)
SELECT k, (SELECT count(*) FROM live.v i WHERE i.v <= o.v) AS rank FROM live.v o
SELECT * FROM live.v UNION ALL SELECT * FROM snapshot.v
SELECT v FROM live.v INTERSECT SELECT v FROM snapshot.v
(SELECT * FROM live.v EXCEPT SELECT * FROM snapshot.v) ORDER BY k DESC LIMIT 1
SELECT * FROM live.v UNION BY NAME SELECT k, 1 AS w FROM snapshot.v
SELECT * FROM live.v a, LATERAL (SELECT a.v * s.v AS product FROM snapshot.v s WHERE s.k <= a.k) t
SELECT k, u.x FROM live.seen, UNNEST(seen) AS u(x)
SELECT k, unnest(seen) AS x, len(seen) AS n FROM live.seen
SELECT v, count(*) AS n, list(k ORDER BY k) AS ks FROM live.v GROUP BY ALL HAVING n > 0 ORDER BY ALL
SELECT k, v, sum(v) OVER (ORDER BY k) AS so_far FROM live.v QUALIFY so_far > 5
SELECT k, v FROM live.v GROUP BY GROUPING SETS ((k, v), (v), ())
SELECT DISTINCT ON (v) v, k FROM live.v ORDER BY v, k
SELECT * EXCLUDE (v), COLUMNS('v') * 2 AS twice FROM live.v
FROM live.v SELECT k WHERE v = 2
SELECT * FROM (VALUES ('a', 1), ('z', 2)) AS t(k, n) LEFT JOIN live.v USING (k)
SELECT * FROM memory.live.v
""".strip().splitlines()
REFUSED = {
    "SELECT * FROM snapshot.v AT (VERSION => 1)": "AT is not supported; pass the id of a snapshot",
    "SELECT * FROM live.v AT (TIMESTAMP => now())": "AT is not supported",
    "SELECT * FROM live.same": "the states Same and same have one name in SQL",
    "SELECT * FROM live.SAME": "put the operator's name before it",
    "SELECT * FROM live.v WHERE k IN (SELECT k FROM v)": "'v' is not a table of state",
    "WITH w AS (SELECT 1) SELECT * FROM live.v, (SELECT * FROM V)": "'V' is not a table of state",
    "SELECT * FROM live.v, range(3)": "is not a table of state",
    "SELECT * FROM query_table('live.v')": "is not a table of state",
    "SELECT * FROM 'live.v'": "is not a table of state",
    "SELECT * FROM other.live.v": "Catalog Error",
    'SELECT * FROM "live v"': "is not a table of state",
    "WITH views AS (SELECT 1) SELECT * FROM (SELECT * FROM live.v), views, (SELECT * FROM result)": "is not a table",
    "PIVOT live.v ON k USING sum(v)": "is not one SELECT",
    "DESCRIBE live.v": "is not one SELECT",
    "SELECT x.v FROM live.v": 'Referenced table "x" not found',
    "SELECT k FROM live.v a, live.v b": "Ambiguous reference",
}


@pytest.fixture(scope="module")
def last() -> Iterator[m.ManagedRun]:
    """The run of the table."""
    with m.run([Last(), Other()], m.source("s", "k STRING, x INT", key="k"), workers=2) as run:
        run.step([("a", 1), ("b", 2)])
        run.step([("a", 5), ("c", 2)])
        yield run


@pytest.fixture(scope="module")
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with the same rows in tables."""
    with duckdb.connect(config={"threads": "1"}) as connection:
        connection.execute(TABLES)
        yield connection


@pytest.mark.parametrize("query", RIGHT)
def test_a_select_is_duckdbs_over_tables(last: m.ManagedRun, oracle: duckdb.DuckDBPyConnection, query: str) -> None:
    """What DuckDB does with a table it does with a state: the same columns, of the same types, and the same rows."""
    found, wanted = last.sql(query, at=1), oracle.sql(query).df()
    if "ORDER BY" not in query:
        found, wanted = (each.sort_values(list(each), key=lambda c: c.astype(str)) for each in (found, wanted))
    pd.testing.assert_frame_equal(found.reset_index(drop=True), wanted.reset_index(drop=True))


@pytest.mark.parametrize("query", REFUSED)
def test_what_no_select_over_state_says_is_refused_in_a_sentence(last: m.ManagedRun, query: str) -> None:
    """What the kit does not support is named. There is no answer to another question."""
    with pytest.raises(SqlError) as refused:
        last.sql(query, at=1)
    assert REFUSED[query] in str(refused.value)


def test_an_id_for_a_state_that_is_not_there_is_refused(last: m.ManagedRun) -> None:
    """A misspelled name in ``at`` would be read at the newest snapshot."""
    with pytest.raises(StateError, match="at: there is no state 'V'; the states are .*, v"):
        last.sql("SELECT * FROM snapshot.v", at={"V": 1})


@settings(max_examples=20)
@given(
    epochs=st.lists(
        st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from("xy"), st.integers(0, 9)), max_size=3), max_size=5
    )
)
def test_rule_27_a_snapshot_is_read_twice_alike_and_joined_at_one_id(epochs: list[list[tuple[str, str, int]]]) -> None:
    """Rule 27, against pandas: each kept snapshot has the rows up to its epoch, at its creation and at the end."""
    run = started()
    seen: dict[int, list[list[object]]] = {}
    for epoch in epochs:
        run.step(epoch)
        for at in run.snapshots:
            rows = run.sql("SELECT product, total, seen FROM snapshot.total JOIN snapshot.seen USING (product)", at=at)
            so_far = pd.DataFrame([row for each in epochs[:at] for row in each], columns=["p", "u", "n"])
            sums = [[key, value, value] for key, value in so_far.groupby("p").n.sum().items()]
            assert sorted(rows.values.tolist()) == sums == seen.setdefault(at, sums)
            assert run.sql(BALANCED, at=at).n.tolist() == [0]


def test_tables_at_ids_of_their_own_tear_the_join() -> None:
    """The wrong way: the totals of two operators differ where each is read at another snapshot."""
    run = filled()
    assert run.sql(BALANCED, at={"total": 3, "seen": 1}).n.tolist() == [1]
    assert run.sql(BALANCED).n.tolist() == [0]


def test_rule_28_a_live_read_can_show_what_a_crash_undoes(tmp_path: Path) -> None:
    """Rule 28: the live row is gone after the recovery, and what a snapshot in the checkpoint showed is not."""
    run = started()
    run.step(EPOCHS[0])
    run.checkpoint(tmp_path / "saved")
    kept = run.sql("SELECT * FROM snapshot.total ORDER BY product", at=1)
    run.step(EPOCHS[2])
    assert run.sql("SELECT count(*) n FROM live.total WHERE product = 'Fig'").n.tolist() == [1]
    run.close()
    with m.restore(tmp_path / "saved", [Count(), Again()]) as again:
        assert again.sql("SELECT count(*) n FROM live.total WHERE product = 'Fig'").n.tolist() == [0]
        assert again.sql("SELECT * FROM live.total ORDER BY product").equals(kept)


@pytest.mark.parametrize(
    ("query", "kind", "said"),
    [
        ("DELETE FROM live.total", SqlError, "is not one SELECT"),
        ("SELECT 1; SELECT 2", SqlError, "is not one SELECT"),
        ("SELEC", SqlError, "is not one SELECT"),
        ("SELECT (", SqlError, "SELECT ("),
        ("SELECT * FROM total", SqlError, "write live.NAME"),
        ("SELECT * FROM read_csv('x.csv')", SqlError, "write live.NAME"),
        ("SELECT * FROM live.nothing", StateError, "no states are named 'nothing'"),
        ("SELECT nothing FROM live.total", SqlError, "nothing"),
        ("SELECT * FROM snapshot.total", TimeError, "there is no snapshot 9"),
    ],
)
def test_what_a_query_cannot_do(query: str, kind: type[Error], said: str) -> None:
    """Each error names the rule, and the run goes on."""
    run = filled()
    with pytest.raises(kind) as refused:
        run.sql(query, at=9)
    assert said in str(refused.value)
    assert run.sql(BALANCED).n.tolist() == [0]


def test_without_a_snapshot_the_error_says_so() -> None:
    """Before the first epoch, and with snapshot_every=0."""
    with pytest.raises(TimeError, match=r"read live\.total"):
        started().sql("SELECT * FROM snapshot.total")
