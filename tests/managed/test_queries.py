"""SQL over state, against the states themselves and pandas (rules 27 and 28)."""

from __future__ import annotations

from pathlib import Path

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
