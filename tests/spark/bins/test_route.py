"""The placement of operators: a new stage only where the key changes, one arrangement per relation and key."""

from __future__ import annotations

import pytest
from cases import CASES, RELATIONS

import sharedstate_lite as ss
from sharedstate_lite.spark.bins.engine_spec import EngineSpec
from sharedstate_lite.spark.bins.route import Route


def route(kind: str, *sql: str, join: str = "auto") -> Route:
    """The route of views in one catalog."""
    catalog = ss.Catalog(**RELATIONS)
    return EngineSpec(
        kind, [catalog.view(f"CREATE VIEW w{n} AS {text}") for n, text in enumerate(sql)], join
    ).checked_route()


STAGES = {
    "SELECT product, COUNT(*) AS n FROM info JOIN visit USING (product) GROUP BY product": 1,
    "SELECT category, MAX(length) AS m FROM info JOIN visit USING (product) GROUP BY category": 2,
    "SELECT DISTINCT user FROM visit": 1,
    "SELECT user FROM visit WHERE length > 1": 1,
    "SELECT city, COUNT(*) AS n FROM info JOIN visit USING (product) JOIN person USING (user) GROUP BY city": 3,
}


@pytest.mark.parametrize("kind", ["full", "shared"])
@pytest.mark.parametrize("sql", STAGES)
def test_a_stage_begins_where_the_key_changes(sql: str, kind: str) -> None:
    """Rows that stay in their bin stay in their stage; a view's own rows need no stage."""
    assert route(kind, sql).stages == STAGES[sql]


def test_views_take_no_more_stages_together() -> None:
    """Several views have as many stages as the deepest one."""
    assert route("full", *STAGES).stages == max(STAGES.values())


@pytest.mark.parametrize("kind", ["full", "shared"])
@pytest.mark.parametrize("name", CASES)
def test_every_piece_of_state_has_one_place(name: str, kind: str) -> None:
    """Each row of state() lives in exactly one stage, and each base table is filled by exactly one channel."""
    found = EngineSpec(kind, [CASES[name].declare()[1][-1]]).checked_route()
    places = [part for stage in range(1, found.stages + 1) for part in found.parts(stage)]
    assert sorted(places) == sorted(h.operator for h in found.engine.state_parts())
    based = [found.relation(c) for c in found.channels if c.base]
    assert sorted(based, key=str) == sorted(found.engine.bases)


def test_rule_10_one_arrangement_serves_all_views() -> None:
    """Views over one relation and key share its arrangement, in one stage; another view adds none."""
    many = route(
        "shared",
        "SELECT category, MAX(length) AS m FROM info JOIN visit USING (product) GROUP BY category",
        "SELECT category, user FROM info JOIN visit USING (product) WHERE length > 1",
        "SELECT product, MAX(length) AS top FROM visit GROUP BY product",
    )
    arranged = [(h.relation, h.key) for h in many.engine.state_parts() if h.base and h.relation in ("info", "visit")]
    assert sorted(arranged) == [("info", ("product",)), ("visit", ("product",))]
    assert {h.kind for h in many.engine.state_parts() if h.relation in RELATIONS and not h.base} == {"reader"}


def test_an_arrangement_that_two_stages_need_has_a_copy() -> None:
    """A view above another one that reads the same arrangement, by another key in between, gets a copy."""
    catalog = ss.Catalog(**RELATIONS)
    below = catalog.view(
        "CREATE VIEW below AS SELECT user, COUNT(*) AS n FROM info JOIN visit USING (product) GROUP BY user"
    )
    above = catalog.view(
        "CREATE VIEW above AS SELECT n, category FROM below JOIN person USING (user) JOIN info ON city = product"
    )
    found = EngineSpec("shared", [above]).checked_route()
    assert below in above.uses
    info = [h.operator for h in found.engine.state_parts() if h.relation == "info"]
    assert info == ["info[product]", "info[product]#2"]


def test_an_arrangement_over_a_view_may_have_a_copy() -> None:
    """The copy of an arrangement over a view has its own name, so that state() lists both."""
    catalog = ss.Catalog(**RELATIONS)
    catalog.view("CREATE VIEW last AS SELECT product, MAX(user) AS user FROM visit GROUP BY product")
    catalog.view("CREATE VIEW near AS SELECT city FROM person JOIN last USING (user)")
    far = catalog.view(
        "CREATE VIEW far AS SELECT category FROM near JOIN info ON city = info.product JOIN last ON category = user"
    )
    found = EngineSpec("shared", [far]).checked_route()
    twice = [h.operator for h in found.engine.state_parts() if h.relation == "γ(visit)" and h.key == ("user",)]
    assert twice == ["γ(visit)[user]", "γ(visit)[user]#2"]


def test_delta_joins_are_refused() -> None:
    """The error names the joins that Spark has."""
    with pytest.raises(ss.ViewError, match="join='delta'.*the shared engine supports the join methods auto, linear"):
        route("shared", "SELECT user FROM visit", join="delta")
