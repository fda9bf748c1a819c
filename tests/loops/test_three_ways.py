"""The engines keep their contract however the loops run: compiled, with checked indexes, in Python, without Numba."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cases import CASES
from hypothesis import given
from hypothesis import strategies as st
from places import ENGINES
from support import Fleet, examples, inputs

from sharedstate_lite import loops
from sharedstate_lite.loops import compiled

SOME = [
    "shopping",
    "minimum",
    "chain of three, two keys",
    "left join",
    "distinct above a join",
    "union all",
    "aggregates of whole numbers",
    "aggregates of doubles",
    "extremes of other types",
    "view over views over views",
]
"""Cases with each operator: joins, LEFT JOIN, aggregates of each type, DISTINCT, UNION ALL, views over views."""
CONTRACT = Path(__file__).parents[1] / "engine" / "test_contract.py"
WITHOUT = "import sys, pytest; sys.modules['numba'] = None; sys.exit(pytest.main(sys.argv[1:]))"


@pytest.fixture(scope="module", params=compiled.MODES)
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """For the tests of this file, all loops run in one way, from the first row on."""
    if request.param == "python":
        made = compiled.in_python()
    else:
        pytest.importorskip("numba", reason="nothing is compiled without Numba")
        made = dict(compiled.compile_loops(bounds=request.param == "bounds"))
    loops.moved(0)  # binds the names
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loops._switch, "left", 0)
        for name, function in made.items():
            patch.setattr(loops, name, function)
        yield request.param


@pytest.mark.parametrize("name", SOME)
def test_every_engine_equals_recomputation(way: str, name: str) -> None:
    """In each way, every engine equals the oracle after every epoch, and so do its emitted changes."""

    @examples(1)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        fleet, there = Fleet(CASES[name], ENGINES), dict[str, Counter[Any]]()
        for _ in range(3):
            fleet.step(data.draw(inputs(fleet.relations, there, most=12)))
            fleet.check()

    run()


def test_a_machine_without_numba_keeps_the_contract() -> None:
    """Where Numba cannot be imported, the tests of the engines' interface pass; bins run the same kernels."""
    settings = {name: value for name, value in os.environ.items() if name != compiled.VARIABLE}
    options = [str(CONTRACT), "-q", "-x", "-k", "not bins"]
    run = subprocess.run([sys.executable, "-c", WITHOUT, *options], capture_output=True, text=True, env=settings)
    assert run.returncode == 0, run.stdout[-3000:]
    assert " passed" in run.stdout and "skipped" not in run.stdout
