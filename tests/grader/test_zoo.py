"""Right systems pass the phases, and each wrong one is caught by the phase and the rule that are meant for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import zoo

ROOT = Path(__file__).resolve().parent.parent.parent


def grade(folder: Path, phases: str, out: Path) -> tuple[int, dict[str, Any], str]:
    """Exit status, report.json, and what was printed."""
    words = ["--quick", "--phases", phases, "--seed", "3", "--convergence", "3", "--report", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "grader", "checkout", str(folder), *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, json.loads((out / "report.json").read_text()), done.stdout + done.stderr


FIRST = {mutant.phase: mutant for mutant in reversed(zoo.MUTANTS)}
"""One mutant a phase for every run of the tests; all of them, and every right system, in the slow ones."""
ELSEWHERE = ("load", "duplicates")
"""Not these: the load takes long, and test_run.py has a mutant in duplicates."""


def slowly(name: str, often: bool) -> object:
    return pytest.param(name, marks=() if often else pytest.mark.slow)


@pytest.mark.parametrize("name", [slowly(name, name == "single") for name in zoo.RIGHT])
def test_a_right_system_passes_every_phase(name: str, tmp_path: Path, scale: str) -> None:
    """What mutants are made of is right: with its one place mended, each of them passes."""
    code, report, text = grade(
        zoo.right(name, tmp_path / "system"),
        "contract,duplicates,load,scarcity,faults" if scale == "full" else "contract,duplicates,scarcity,faults",
        tmp_path / "out",
    )
    assert code == 0 and report["violations"] == [], text


@pytest.mark.parametrize(
    "name", [slowly(m.name, m is FIRST[m.phase] and m.phase not in ELSEWHERE) for m in zoo.MUTANTS]
)
def test_a_wrong_system_is_caught(name: str, tmp_path: Path) -> None:
    """The mutant fails in its phase, by its rule."""
    mutant = next(mutant for mutant in zoo.MUTANTS if mutant.name == name)
    code, report, text = grade(zoo.plant(mutant, tmp_path / "system"), mutant.phase, tmp_path / "out")
    assert code == 1 and report["phases"][mutant.phase]["verdict"] == "fail", text
    assert mutant.rule in {v["rule"] for v in report["violations"]}, text
