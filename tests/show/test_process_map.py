"""The map of the processes of a Spark job shows each copy of a graph, or the one that is mapped."""

from __future__ import annotations

import pytest

from sharedstate_lite import show


@pytest.mark.parametrize(("shown", "graphs"), [({}, 0), ({"copied": True}, 4), ({"mapped": True}, 1)])
def test_each_copy_is_drawn(shown: dict[str, bool], graphs: int) -> None:
    """Driver, executor and both workers have a copy, or there is one in sealed memory, or none."""
    drawn = show.process_map("A map", **shown)._repr_html_()
    assert drawn.count(">graph<") == graphs
    assert ("sealed memory" in drawn) == ("mapped" in shown)
    assert all(name in drawn for name in ("driver", "executor", "Python worker 2", "runtime"))


@pytest.mark.parametrize(("pools", "told"), [({"workers": 16}, "16 + 16"), ({"runtime": 8}, "8")])
def test_each_pool_is_drawn_and_the_database_counts_the_connections(pools: dict[str, int], told: str) -> None:
    """Each worker has a pool, or the runtime has one; PostgreSQL has the connections of all of them."""
    drawn = show.process_map("A map", pools=pools)._repr_html_()
    assert drawn.count(">pool: ") == told.count("+") + 1 and f">{told} connections<" in drawn
