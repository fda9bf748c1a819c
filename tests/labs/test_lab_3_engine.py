"""Lab 3 and the kit: in each order of a check, the student's operators and the engine end with the same number."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

import sharedstate_lite as ss
from sharedstate_lite import data

LAB = Path(__file__).resolve().parents[2] / "labs" / "3-upqueries"


class Solution:
    """The lab's solution in this process."""

    def __init__(self, text: str) -> None:
        self.names: dict[str, Any] = {}
        exec(text, self.names)

    def calls(self, cls: str, calls: Any) -> Any:
        made = self.names[cls]()
        return json.loads(json.dumps([getattr(made, name)(*args) for name, *args in calls]))


def notebook_function() -> Any:
    """The notebook's function that turns an order into messages for the engine."""
    cells = [c for c in json.loads((LAB / "lab.ipynb").read_text())["cells"] if c["cell_type"] == "code"]
    (cell,) = (text for c in cells if "def as_history" in (text := "".join(c["source"])))
    names: dict[str, Any] = {}
    exec(cell.partition("show.stepper")[0], names)
    return names["as_history"]


@pytest.mark.parametrize(("without", "wrong"), [(set(), False), ({"rule18"}, True)])
def test_the_engine_does_the_same_in_every_order(without: set[str], wrong: bool) -> None:
    """Without rule 18, the engine's table answers with the snapshot, as the wrong solution does."""
    now = 'return [("answer", key, self.rows[key])]'
    text = (LAB / "solution.py").read_text()
    assert text.count(now) == 1
    checks, history = runpy.run_path(str(LAB / "checks.py")), notebook_function()
    query = "SELECT product, COUNT(*) AS n FROM visit GROUP BY product"
    view = ss.Catalog(**data.SCHEMA).view(f"CREATE VIEW visitors AS {query}")
    replay = ss.replay("partial", [view], without=without)
    read, write, delete = checks["read"](), checks["write"](+1), checks["write"](-1)
    scripts = [[read, write], [write, read], [read, write, read], [write, read, delete]]
    student = Solution(text.replace(now, 'return [("answer", key, then)]') if wrong else text)
    orders = list(checks["races"](student, checks["COUNT"], scripts))
    seen = []
    for order in orders:
        ((_, mine),), ((_, right),) = order.ask(), order.right
        told = [step.answer for step in replay([*history(order.trace), ("read", "visitors", "Nut")]).steps]
        last = [answer for answer in told if answer is not None][-1]
        assert mine == (last[0][1] if last else 0), order.trace
        seen.append(mine != right)
    assert len(seen) > 50
    assert any(seen) == wrong
