"""Measurements: counts are right, draws repeat, and reads tell hits from holes."""

from __future__ import annotations

import pandas as pd
import pytest

import sharedstate_lite as ss
from sharedstate_lite import data, oracle
from sharedstate_lite.lessons import measure
from sharedstate_lite.lessons.demo import view

SHOP = list(data.generate(visits=600, products=30, users=40, categories=5, epochs=6))
KINDS = ["full", "shared", "partial"]


@pytest.mark.parametrize("kind", KINDS)
def test_play_counts_what_came_and_what_is_held(kind: str) -> None:
    """One row for each epoch, with its input rows and the bill of the engine."""
    with ss.engine(kind, [view()]) as engine:
        told = measure.play(engine, SHOP)
        assert told["epoch"].tolist() == [1, 2, 3, 4, 5, 6]
        assert told["changes"].tolist() == [sum(t.num_rows for t in tables.values()) for _, tables in SHOP]
        assert told.iloc[-1][list(measure.BILLED)].tolist() == measure.bills({kind: engine}).loc[kind].tolist()
        assert told.iloc[-1]["durable rows"] == sum(map(len, measure.tables(SHOP).values()))
        assert (told["seconds"] >= 0).all()
        assert (told["emitted"].sum() == 0) == (kind == "partial")


def test_reads_tell_hits_from_holes() -> None:
    """Under partial state the first read of a key is a miss and the next a hit; under full state all are hits."""
    for kind, hits in (("partial", [False, False, True, True]), ("full", [True] * 4)):
        with ss.engine(kind, [view()]) as engine:
            measure.play(engine, SHOP)
            told = measure.reads(engine, "result", ["c0", "none", "c0", "none"])
            assert told["hit"].tolist() == hits
            assert told["rows"].tolist() == [1, 0, 1, 0]


def test_bills_are_the_engines_bills() -> None:
    """One row for each engine: the three columns of its bill, in rows and then in bytes."""
    engines = {kind: ss.engine(kind, [view()]) for kind in KINDS}
    measure.play_all(engines, SHOP)
    engines["partial"].read("result", key="c0")
    told = measure.bills(engines)
    for kind, engine in engines.items():
        bill = engine.bill().loc[["durable inputs", "working state", "cached answers"]]
        assert told.loc[kind].tolist() == [*bill["rows"], *bill["bytes"]]
        engine.close()
    info, visit = (len(table) for table in measure.tables(SHOP).values())  # info has an index by each of its columns
    assert told.loc["partial", "working rows"] == 2 * info + visit and told.loc["partial", "cached rows"] == 2
    assert measure.play(ss.engine("full", [view()]), [])["working rows"].sum() == 0


def test_one_job_runs_equal_joins_once() -> None:
    """A join with the same columns and key counts once, and one with other columns again; a table is durable once."""
    sqls = {
        "longest": "category, MAX(length) AS n FROM info JOIN visit USING (product) GROUP BY category",
        "shortest": "category, MIN(length) AS n FROM info JOIN visit USING (product) GROUP BY category",
        "visits": "category, COUNT(*) AS n FROM info JOIN visit USING (product) GROUP BY category",
        "least": "user, MIN(length) AS n FROM visit GROUP BY user",
    }
    catalog = ss.Catalog(**data.SCHEMA)
    alone = [ss.engine("full", [catalog.view(f"CREATE VIEW {n} AS SELECT {sql}")]) for n, sql in sqls.items()]
    for engine in alone:
        measure.play(engine, SHOP)
        engine.compact()
    told = [measure.one_job(alone[: n + 1]) for n in range(4)]
    assert told[0] == measure.bills({0: alone[0]}).loc[0].to_dict()
    rows = [engine.state().query("bill == 'working'").set_index("operator")["rows"] for engine in alone]
    added = [after["working rows"] - before["working rows"] for before, after in zip(told, told[1:], strict=False)]
    groups = rows[1][~rows[1].index.str.contains("join")].sum()
    assert added == [groups, rows[2].sum(), rows[3].sum()] and groups < rows[1].sum()
    assert len({each["durable rows"] for each in told}) == 1


def test_only_the_tables_are_shared() -> None:
    """Arrangements of tables count once for each key, and joined rows for each view; a table is durable once."""
    sqls = {
        "longest": "category, MAX(length) AS n FROM info JOIN visit USING (product) GROUP BY category",
        "shortest": "category, MIN(length) AS n FROM info JOIN visit USING (product) GROUP BY category",
        "least": "user, MIN(length) AS n FROM visit GROUP BY user",
    }
    catalog = ss.Catalog(**data.SCHEMA)
    views = [catalog.view(f"CREATE VIEW {name} AS SELECT {sql}") for name, sql in sqls.items()]
    alone = [ss.engine("shared", [each]) for each in views]
    for engine in alone:
        measure.play(engine, SHOP)
        engine.compact()
    once = measure.tables_only(alone[:1])
    assert once == measure.bills({0: alone[0]}).loc[0].to_dict()
    joined = alone[0].state().set_index("operator").loc["π(info ⋈ visit)[category]"]
    answers = [len(engine.read(name)) for name, engine in zip(sqls, alone, strict=True)]
    two = measure.tables_only(alone[:2])
    assert two["working rows"] == once["working rows"] + joined["rows"] + answers[1]
    assert two["working bytes"] > once["working bytes"] + joined["bytes"]
    assert two["durable rows"] == once["durable rows"] and two["cached rows"] == 0
    three = measure.tables_only(alone)
    by_user = alone[2].state().set_index("operator").loc["visit[user]"]
    assert three["working rows"] == two["working rows"] + by_user["rows"] + answers[2]
    assert three["durable rows"] == two["durable rows"]


def test_zipf_repeats_and_is_skewed() -> None:
    """The same seed draws the same keys, the first more often than the last; no keys raise."""
    keys = [f"k{i}" for i in range(50)]
    drawn = measure.zipf(keys, 2000)
    assert drawn == measure.zipf(keys, 2000) != measure.zipf(keys, 2000, seed=8)
    assert drawn.count("k0") > 10 * max(1, drawn.count("k49"))
    with pytest.raises(ss.Error, match="no keys"):
        measure.zipf([], 1)


def test_more_budget_hits_no_less() -> None:
    """Rows stay within the budget; a tiny budget has no hits, a large one misses only first reads."""
    keys = measure.zipf([f"c{i}" for i in range(5)], 60)
    told = measure.hit_rates([view()], SHOP, "result", keys, [0, 4, 1000])
    assert (told["cached"] <= told["budget"]).all()
    assert told["hits"].tolist()[0] == 0 and told["hits"].tolist()[2] == 60 - len(set(keys))
    assert told["rate"].is_monotonic_increasing
    warm = measure.hit_rates([view()], SHOP, "result", keys * 2, [1000], warm=60)
    assert warm["reads"][0] == warm["hits"][0] == 60


def test_slices_are_the_table() -> None:
    """The pieces add up to the table in order, with nearly equal sizes; short tables give empty pieces."""
    table = pd.DataFrame({"product": list("abcdefg")})
    pieces = measure.slices({"info": table, "visit": table.head(1).assign(diff=-1)}, 3)
    assert [len(p["info"]) for p in pieces] == [2, 2, 3]
    assert pd.concat([p["info"] for p in pieces])["product"].tolist() == list("abcdefg")
    assert pieces[0]["info"]["diff"].tolist() == [1, 1] and pieces[2]["visit"]["diff"].tolist() == [-1]
    with pytest.raises(ss.Error, match="epochs=0"):
        measure.slices({"info": table}, 0)


def test_scale_is_one_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """SCALE is small by default; an unknown value raises with both names."""
    monkeypatch.delenv("SCALE", raising=False)
    assert measure.scale(1, 2) == 1
    monkeypatch.setenv("SCALE", "full")
    assert measure.scale(1, 2) == 2
    monkeypatch.setenv("SCALE", "huge")
    with pytest.raises(ss.Error, match="small or full"):
        measure.scale(1, 2)


def test_tables_are_what_epochs_add_up_to() -> None:
    """tables() gives the remaining rows with their diffs; the answer recomputed from them is the engine's."""
    left = measure.tables(SHOP)
    with ss.engine("full", [view()]) as engine:
        measure.play(engine, SHOP)
        assert oracle.same(engine.read("result"), oracle.recompute(view(), left))
        assert len(left["visit"]) < sum(tables["visit"].num_rows for _, tables in SHOP)
        assert measure.keys(engine, view()) == [(f"c{i}",) for i in range(5)]


def test_several_engines_take_turns() -> None:
    """play_all() sends every epoch to each engine once, in order; each ends as if it ran alone."""
    engines = {kind: ss.engine(kind, [view()]) for kind in KINDS}
    told = measure.play_all(engines, SHOP)
    for kind, engine in engines.items():
        with ss.engine(kind, [view()]) as alone:
            columns = ["epoch", "changes", "emitted", *measure.BILLED]
            assert told[kind][columns].equals(measure.play(alone, SHOP)[columns])
        engine.close()


def test_rounds_leave_the_last_one() -> None:
    """timed() with three rounds calls three times and returns the last result."""
    done: list[str] = []
    found, seconds = measure.timed(lambda: (done.append("do"), len(done))[1], rounds=3)
    assert (found, done) == (3, ["do"] * 3) and seconds >= 0
