"""Plans compare by value, also in another process."""

from __future__ import annotations

import pickle
import subprocess
import sys

from sharedstate_lite.plan.nodes import Node
from sharedstate_lite.sql.catalog import Catalog


def plan() -> Node:
    """A plan with every operator but a union."""
    catalog = Catalog(a="x INT, s STRING", b="x INT, y INT")
    view = catalog.view("CREATE VIEW v AS SELECT s, SUM(y) AS t FROM a LEFT JOIN b USING (x) WHERE y > 1 GROUP BY s")
    return view.plan


def test_plans_compare_by_value() -> None:
    """The same SQL gives equal plans with equal hashes; another constant gives another plan."""
    assert (plan(), hash(plan())) == (plan(), hash(plan()))
    assert len({plan(), plan()}) == 1
    other = Catalog(a="x INT, s STRING").view("CREATE VIEW v AS SELECT s FROM a WHERE x > 2").plan
    assert other != plan()


def test_a_plan_is_found_in_another_process() -> None:
    """An unpickled plan equals a plan that is built in that process, and has the same hash there."""
    code = (
        "import pickle, sys; sys.path[:0] = ['tests/plan', '.']; from test_view import plan; "
        "sent = pickle.load(sys.stdin.buffer); assert sent == plan() and sent in {plan()}"
    )
    sent = plan()
    hash(sent)
    subprocess.run([sys.executable, "-c", code], input=pickle.dumps(sent), check=True)


def test_walk_gives_inputs_first() -> None:
    """Every operator comes after its inputs."""
    nodes = list(plan().walk())
    assert nodes[-1] == plan()
    assert all(nodes.index(i) < nodes.index(n) for n in nodes for i in n.inputs)
