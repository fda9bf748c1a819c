"""Lab 5: the kit's search finds the same snapshots wrong, the kit's plans move as few bins, and the examples hold."""

from __future__ import annotations

import itertools
import json
import re
import runpy
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sharedstate_lite.managed import bins, snapshots

LAB = Path(__file__).resolve().parents[2] / "labs" / "5-snapshots-and-rescaling"


def job(text: str) -> Any:
    """The notebook's job, in which the Aligned of a solution's text is operator c."""
    cells = [c for c in json.loads((LAB / "lab.ipynb").read_text())["cells"] if c["cell_type"] == "code"]
    (cell,) = (source for c in cells if "class YourJob" in (source := "".join(c["source"])))
    solution: dict[str, Any] = {}
    exec(text, solution)
    names: dict[str, Any] = {
        "snapshots": snapshots,
        "solution": SimpleNamespace(**solution),
        "BARRIER": snapshots.BARRIER,
        "Action": snapshots.Action,
        "CHANNELS": ["s1", "s2"],
        "__name__": "lab",
    }
    exec(cell, names)
    return names["YourJob"]()


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("", True), ("blocks-nobody", False), ("blocks-everybody", False), ("snapshot-at-the-first-barrier", False)],
)
def test_the_kit_finds_the_same_snapshots_wrong(wrong: str, right: bool) -> None:
    """In every order, with a crash at any moment: the solution is right, and what aligned.cut finds is wrong."""
    text = (LAB / "solution.py").read_text()
    if wrong:
        mutant = tomllib.loads((LAB / "mutants.toml").read_text())[wrong]
        assert mutant["check"] == "aligned.cut"
        for old, new in mutant["replace"]:
            text = text.replace(old, new)
    assert snapshots.explore(job(text)).right == right


def test_the_fewest_moves_are_those_of_the_kit() -> None:
    """The search through all assignments and `bins.plan` move as many bins, for all owners of up to five bins."""
    fewest = runpy.run_path(str(LAB / "checks.py"))["fewest"]
    count = 0
    for many in range(1, 6):
        for owners in itertools.product(range(3), repeat=many):
            for workers in range(1, min(4, many) + 1):
                kit = bins.moves(owners, bins.plan(owners, workers))
                assert len(fewest(owners, workers)) == len(kit), (owners, workers)
                count += 1
    assert count > 1000


def test_the_examples_of_the_notebook_hold() -> None:
    """In the prose, each line `call == result` is true of the solution, one after the other."""
    names: dict[str, Any] = {}
    exec((LAB / "solution.py").read_text(), names)
    cells = [c for c in json.loads((LAB / "lab.ipynb").read_text())["cells"] if c["cell_type"] == "markdown"]
    count = 0
    for block in re.findall("```python\n(.*?)```", "\n".join("".join(c["source"]) for c in cells), re.DOTALL):
        for line in filter(None, (line.partition("  #")[0].strip() for line in block.splitlines())):
            if " == " in line:
                assert eval(line, names), line
                count += 1
            else:
                exec(line, names)
    assert count == 25
