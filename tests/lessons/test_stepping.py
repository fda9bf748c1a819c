"""The code of a loop, and its steps in Python, whether loops are compiled or not."""

from __future__ import annotations

import sys

import pytest

import sharedstate_lite as ss
from sharedstate_lite import data, loops
from sharedstate_lite.lessons import epochs, stepping
from sharedstate_lite.loops import compiled


def test_the_code_is_the_function_s_own() -> None:
    """The code has the names of the arguments, and all lines after the docstring."""
    lines = stepping.source("below_zero").splitlines()
    assert (
        lines[:2] == ["def below_zero(have, diffs):", "    for i in range(len(have)):"] and lines[-1] == "    return -1"
    )


@pytest.mark.parametrize("way", ["python", "compiled"])
def test_the_join_of_one_visit_is_stepped_through(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call of a loop is listed, and after it the loop and the tracing are as before, also after an error."""
    if way == "compiled":
        pytest.importorskip("numba", reason="nothing is compiled without Numba")
    made = compiled.in_python() if way == "python" else dict(compiled.compile_loops())
    loops.moved(0)  # binds the names
    for name, function in made.items():
        monkeypatch.setattr(loops, name, function)
    catalog = ss.Catalog(**data.SCHEMA)
    view = catalog.view("CREATE VIEW v AS SELECT category, length FROM info JOIN visit USING (product)")
    engine = epochs.engine_after("shared", [view], epochs.messages(data.seed())[:-1])
    before = sys.gettrace()
    found = stepping.steps("join", lambda: engine.step({"visit": [(("Potato", "Eve", 60), +1)]}), ["i", "row", "count"])
    assert list(found.columns) == ["line", "i", "row", "count"]
    assert found["count"].tolist()[-1] == 1 and all(
        a != b for a, b in zip(found.values[1:, 1:].tolist(), found.values[:-1, 1:].tolist(), strict=True)
    )
    assert loops.join is made["join"] and sys.gettrace() is before
    with pytest.raises(ZeroDivisionError):
        stepping.steps("join", lambda: 1 / 0, ["i"])
    assert loops.join is made["join"] and sys.gettrace() is before
