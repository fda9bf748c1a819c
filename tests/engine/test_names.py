"""Names of the parts of an engine's state: checkpoints, and bins on Spark, identify state by name."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from places import ENGINES, IN_BINS, make

import sharedstate_lite as ss


@pytest.mark.parametrize("label", [*ENGINES, *IN_BINS])
def test_every_operator_has_a_name_of_its_own(label: str) -> None:
    """Extremes of columns with equal names, and of columns named like a part of the aggregate, have different names."""
    catalog = ss.Catalog(visit="product STRING, output INT")
    view = catalog.view(
        "CREATE VIEW v AS SELECT a.product, MAX(a.output) AS most, MIN(b.output) AS least FROM visit a "
        "JOIN visit b ON a.product = b.product GROUP BY a.product"
    )
    rows: list[Any] = [(("a", n), 1) for n in range(9)]
    with make(label, [view]) as engine:
        engine.step({"visit": rows})
        assert engine.state().operator.is_unique
        assert engine.read("v", key="a")[["most", "least"]].iloc[0].tolist() == [8, 0]
        engine.step({"visit": [(row, -1) for row, _ in rows[:2]]})
        assert engine.read("v", key="a")[["most", "least"]].iloc[0].tolist() == [8, 2]


def views(*sql: str) -> list[ss.View]:
    """Views over r and s."""
    catalog = ss.Catalog(r="k STRING, n INT", s="k STRING, m INT")
    return [catalog.view(text) for text in sql]


ENGINE = import_module("sharedstate_lite.engine.engine")
JOIN = "CREATE VIEW v AS SELECT r.k, m FROM r JOIN s USING (k)"
CLASHES = {
    "a side of a join": ([JOIN, 'CREATE VIEW "v.join1.left" AS SELECT k, n FROM r'], ["full"]),
    "a part of an aggregate": (
        [
            "CREATE VIEW v AS SELECT k, SUM(n) AS n FROM r GROUP BY k",
            'CREATE VIEW "v.group1.output" AS SELECT m FROM s',
        ],
        ["full"],
    ),
    "a base table": (
        ["CREATE VIEW v AS SELECT k, n FROM r", 'CREATE VIEW "r[k, n]" AS SELECT k FROM s'],
        ["full", "shared"],
    ),
    "a base table that is yet to come": (['CREATE VIEW "r[k, n]" AS SELECT k FROM s'], ["full", "shared", "partial"]),
}


@pytest.mark.parametrize("clash", CLASHES)
def test_two_pieces_of_state_never_have_one_name(clash: str) -> None:
    """A view with the name of another part of the state is refused, at the start or later; the engine is unchanged."""
    given, kinds = CLASHES[clash]
    for kind in kinds:
        with pytest.raises(ss.ViewError, match=r"would name both the .* of .* and the .* of .*rename"):
            ss.engine(kind, views(*given))
        first, *rest = views(JOIN.replace("v AS", "other AS"), *given)
        with ss.engine(kind, [first]) as engine:
            engine.step({"r": [(("a", 1), 1)], "s": [(("a", 5), 1)]})
            for view in rest[:-1]:
                engine.install(view)
            before = engine.state()
            if "r[k, n]" in [v.name for v in rest] and "r[k, n]" not in set(before.operator):
                continue  # there the base table goes by another key
            with pytest.raises(ss.ViewError, match="would name both"):
                engine.install(rest[-1])
            assert engine.state().equals(before)
            engine.step({"r": [(("a", 2), 1)]})


def test_a_checkpoint_loses_no_part_of_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two parts with one name are refused at the latest when a checkpoint is written or restored."""
    given = CLASHES["a side of a join"][0]
    with monkeypatch.context() as patch:
        patch.setattr(ENGINE, "check_names", lambda *_: None)
        engine = ss.engine("full", views(*given))
    engine.step({"r": [(("a", 1), 1), (("b", 7), 1)], "s": [(("a", 5), 1)]})
    with pytest.raises(ss.ViewError, match=r"would name both the join of π\(r\) and the reader of v.join1.left"):
        engine.checkpoint(tmp_path / "now")
    with monkeypatch.context() as patch:
        patch.setattr(ENGINE, "check_names", lambda *_: None)
        engine.checkpoint(tmp_path / "then")
    with pytest.raises(ss.CheckpointError, match="would name both"):
        ss.restore(tmp_path / "then")
