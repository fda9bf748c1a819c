"""What the pieces of an engine's state are called: a checkpoint, and the bins on Spark, tell them apart by that."""

from __future__ import annotations

from typing import Any

import pytest
from places import ENGINES, IN_BINS, make

import sharedstate_lite as ss


@pytest.mark.parametrize("label", [*ENGINES, *IN_BINS])
def test_every_operator_has_a_name_of_its_own(label: str) -> None:
    """Extremes of columns of one name, and of columns called like a part of the aggregate, are told apart."""
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
