"""Right solutions in other styles than the labs' own: right/LAB/NAME.py gets every point of labs/LAB."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from grader.lab.checks import load
from grader.lab.judge import judge
from grader.outcomes import Outcome
from grader.student.local import Local

RIGHT = Path(__file__).resolve().parent / "right"
LABS = Path(__file__).resolve().parents[2] / "labs"
SOLUTIONS = sorted(RIGHT.glob("*/*.py"))


@pytest.mark.parametrize("solution", SOLUTIONS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_right_solution_passes_every_check(solution: Path, tmp_path: Path) -> None:
    """No check depends on how a solution stores its state, or on the order of what it returns."""
    shutil.copy(solution, tmp_path / "solution.py")
    with Local(tmp_path, "solution") as local:
        results = judge(load(LABS / solution.parent.name / "checks.py"), local, {})
    assert {result.check: (result.trace, result.got) for result in results if result.outcome != Outcome.PASS} == {}
