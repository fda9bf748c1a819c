"""Engines over bins and stages, without Spark: state, options and strings. Their rules are tested in tests/rules."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from cases import CASES, RELATIONS
from hypothesis import given
from hypothesis import strategies as st
from rehearsal import Rehearsal
from support import IN_BINS_TOO, epochs, examples, relations_of, tuples

import sharedstate_lite as ss
from sharedstate_lite.spark.rounds import strings
from sharedstate_lite.storage.encoding import Dictionary


@pytest.mark.parametrize("kind", ["full", pytest.param("shared", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in IN_BINS_TOO else pytest.mark.slow) for n in CASES])
def test_state_and_late_views_over_bins(name: str, kind: str) -> None:
    """Rule 5 over bins: a view installed late equals one installed early; state() lists what one process lists."""
    case = CASES[name]

    @examples(2)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        catalog, views = case.declare()
        other = catalog.view("CREATE VIEW other AS SELECT country, COUNT(*) AS n FROM place GROUP BY country")
        there = Rehearsal(kind, [other])
        here = ss.engine(kind, [other], join="linear")
        steps = data.draw(epochs(relations_of(views[-1]), least=2, most=4))
        when = data.draw(st.integers(0, len(steps) - 1))
        for number, step in enumerate(steps):
            if number == when:
                assert there.install(views[-1]) == here.install(views[-1])
            expected, got = here.step(step), there.step(step)
            assert list(got) == list(expected)
            assert all(got[each] == changes for each, changes in expected.items())
        columns = ["operator", "relation", "key", "rows", "kind", "bill"]
        for engine in (there, here) if kind == "full" else ():
            mine, theirs = (e.state().sort_values("operator", ignore_index=True) for e in (there, here))
            assert mine[columns].equals(theirs[columns])
            for operator in mine.operator:
                assert there.state(operator).equals(here.state(operator)), operator
            engine.compact()
        there.drop("result")
        assert tuples(there.read("other")) == tuples(here.read("other"))
        here.close()

    run()


def test_rows_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows in several runs of a bin, and equal rows of a view in several bins, count as in one process.

    A stage's blobs are read in one call, and only those of pieces whose heads do not suffice.
    """
    catalog = ss.Catalog(**RELATIONS)
    views = [
        catalog.view(f"CREATE VIEW v{n} AS SELECT {text}")
        for n, text in enumerate(
            [
                "category FROM info JOIN visit USING (product)",  # a bin is a product's
                "category, product FROM info JOIN visit USING (product)",
                "category, COUNT(*) AS n FROM info JOIN visit USING (product) GROUP BY category",
            ]
        )
    ]
    there, here = Rehearsal("full", views), ss.engine("full", views)
    asked: list[tuple[int, list[str]]] = []
    blobs = there._query.blobs

    def noted(stage: int, parts: Collection[str]) -> Any:
        asked.append((stage, list(parts)))
        return blobs(stage, parts)

    monkeypatch.setattr(there._query, "blobs", noted)

    def same() -> list[tuple[int, list[str]]]:
        """Compare the bills in rows, and return the blobs that were read for that."""
        asked.clear()
        assert there.bill()["rows"].equals(here.bill()["rows"])
        return asked

    for engine in (there, here):
        engine.step({"info": [((f"p{n}", "c"), 1) for n in range(9)]})
        engine.step({"visit": [((f"p{n % 9}", "u", n), 1) for n in range(9_000)]})
    assert same() == [(1, ["v0"])]
    for engine in (there, here):
        engine.step({"visit": [((f"p{n % 9}", "u", n), -1) for n in range(2_000)]})
    ((stage, parts),) = same()
    assert stage == 1 and set(parts) == {"v0", "visit[product, user, length]"}


def test_full_state_with_all_columns(tmp_path: Path) -> None:
    """In bins, too, columns="all" stores all of them, also after an install, a drop and a restore."""
    catalog = ss.Catalog(**RELATIONS)
    views = [catalog.view(f"CREATE VIEW {n} AS SELECT length FROM info JOIN visit USING (product)") for n in "vw"]
    there = Rehearsal("full", views[:1], columns="all")
    there.step({"visit": [(("a", "u", 1), 1)]})
    there.install(views[1])
    there.drop(views[0])
    there.checkpoint(tmp_path / "c")
    for engine in (there, Rehearsal.restore(tmp_path / "c")):
        assert list(engine.state("w.join1.right")) == ["product", "user", "length", "diff"]
    assert list(Rehearsal("full", views).state("w.join1.right")) == ["product", "length", "diff"]
    for kind in ("shared", "partial"):
        with pytest.raises(ss.ViewError, match=f"columns: only full state has this option; leave it out for {kind}"):
            ss.spark.engine(kind, views, columns="all")
    with pytest.raises(ss.ViewError, match="columns='few'.*'used' or 'all'"):
        Rehearsal("full", views, columns="few")


def test_strings_that_no_row_uses_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process with too many strings drops those that no bin uses, and answers stay right."""
    monkeypatch.setattr(strings.worker_strings, "strings", Dictionary())
    monkeypatch.setattr(strings.worker_strings, "limit", 0)
    monkeypatch.setattr(strings, "MIN_STRINGS", 50)
    catalog = ss.Catalog(**RELATIONS)
    view = catalog.view("CREATE VIEW result AS SELECT user, COUNT(*) AS n FROM visit GROUP BY user")
    there = Rehearsal("full", [view])
    seen = []
    for number in range(30):
        rows = [(("a", f"user {number} {n}", 1), 1) for n in range(10)]
        assert len(there.step({"visit": rows})["result"]) == 10
        there.step({"visit": [(row, -1) for row, _ in rows] + [(("a", "x", number), 1)]})
        seen.append(len(strings.worker_strings.strings))
    assert max(seen) < 150
    assert tuples(there.read("result")) == [("x", 30)]
