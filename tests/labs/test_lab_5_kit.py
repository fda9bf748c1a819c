"""Lab 5: the kit's search finds the same snapshots wrong, the kit's plans move as few bins, and messages are exact."""

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
from in_process import Here

from grader.lab.checks import load
from grader.lab.judge import judging
from sharedstate_lite import protocols
from sharedstate_lite.managed import bins

LAB = Path(__file__).resolve().parents[2] / "labs" / "5-snapshots-and-rescaling"


def job(text: str) -> Any:
    """The notebook's job, in which the Aligned of a solution's text is operator c."""
    cells = [c for c in json.loads((LAB / "lab.ipynb").read_text())["cells"] if c["cell_type"] == "code"]
    (cell,) = (source for c in cells if "class YourJob" in (source := "".join(c["source"])))
    solution: dict[str, Any] = {}
    exec(text, solution)
    names: dict[str, Any] = {
        "protocols": protocols,
        "solution": SimpleNamespace(**solution),
        "BARRIER": protocols.BARRIER,
        "Action": protocols.Action,
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
    """In every order, with a crash at any moment: the solution is right, and what the checks find is wrong."""
    text = (LAB / "solution.py").read_text()
    if wrong:
        mutant = tomllib.loads((LAB / "mutants.toml").read_text())[wrong]
        assert mutant["check"] in ("aligned.waits", "aligned.cut")
        for old, new in mutant["replace"]:
            text = text.replace(old, new)
    assert protocols.explore(job(text)).right == right


def test_the_fewest_moves_are_those_of_the_kit() -> None:
    """The search through all assignments and `bins.assign` move as many bins, for all owners of up to five bins."""
    fewest = runpy.run_path(str(LAB / "checks.py"))["fewest"]
    count = 0
    for many in range(1, 6):
        for owners in itertools.product(range(3), repeat=many):
            for workers in range(1, min(4, many) + 1):
                kit = bins.moves(owners, bins.assign(owners, workers))
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


SENDS = '        self.total += n\n        return [("out", self.total)]\n'


@pytest.mark.parametrize(
    ("check", "old", "new", "got"),
    [
        (
            "aligned.totals",
            SENDS,
            SENDS.replace("[", "").replace("]", ""),
            "row('b', 100) returned ('out', 100), which is a message. "
            "Return a list, also for one message: [('out', 100)]",
        ),
        (
            "aligned.totals",
            SENDS,
            '        self.total += n\n        self.held[:] = [("out", self.total)]\n        return self.held\n',
            "row returned out 100. Later, your code changed it to out 300. A returned message is sent: return a copy",
        ),
        (
            "unaligned.cut",
            "if self.seen and channel not in self.seen:",
            "if channel not in self.seen:",
            "barrier returned snapshot 1 (total 0). Later, your code changed it to snapshot 1 (total 0, b 100). "
            "A returned message is sent: return a copy",
        ),
    ],
    ids=["no-list", "list-reused", "snapshot-changed"],
)
def test_a_message_that_is_no_list_or_changes_later_is_told_as_such(check: str, old: str, new: str, got: str) -> None:
    """`got` shows the list that is missing, or what the message was and what it has become."""
    text = (LAB / "solution.py").read_text()
    assert text.count(old) == 1
    checks = [one for one in load(LAB / "checks.py") if one.id == check]
    (judged,) = judging(checks, Here(text.replace(old, new)), {})
    assert (judged.result.outcome, judged.result.got) == ("wrong", got)
