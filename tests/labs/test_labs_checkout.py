"""labs/checkout: the system that the assignment starts from loses what its page says, the right one nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sharedstate_lite.entities.export import export

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "labs" / "checkout"
SAFETY = "contract,duplicates,load,scarcity,faults"


def grade(name: str, phases: str, out: Path, convergence: int = 3, *more: str) -> tuple[int, dict[str, Any], str]:
    """Exit status, report.json, and what was printed. ``more``: other words of the command."""
    folder = LAB / name
    if name == "entities":
        folder = out / "exported"
        export(LAB / name / "shop.py", folder)
    words = [*(more or ["--quick"]), "--phases", phases, "--seed", "7", "--convergence", str(convergence)]
    done = subprocess.run(
        [sys.executable, "-m", "grader", "checkout", str(folder), *words, "--report", str(out / "report")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=900 if more else 180,
    )
    return done.returncode, json.loads((out / "report" / "report.json").read_text()), done.stdout + done.stderr


def told() -> set[tuple[str, str]]:
    """Phase and rule of each violation that the lab's page shows."""
    return set(re.findall(r"^\| (\w+) \| (\w+) \| ", (LAB / "README.md").read_text(), re.M)) - {("phase", "rule")}


def test_the_first_system_keeps_the_contract_and_charges_twice(tmp_path: Path) -> None:
    """Every route answers as agreed, and checkouts of one order at the same time are paid more than once."""
    code, report, text = grade("start", "contract,duplicates", tmp_path, convergence=1)
    assert code == 1 and report["phases"]["contract"]["verdict"] == "pass", text
    found = {(v["phase"], v["rule"]) for v in report["violations"]}
    assert found and found == {pair for pair in told() if pair[0] == "duplicates"}, text
    assert any(re.fullmatch(r"charged \d+ times, should be once", v["detail"]) for v in report["violations"])


@pytest.mark.parametrize(
    ("name", "phase"),
    [("one-database", "contract"), ("saga", "duplicates"), ("entities", "contract"), ("fast", "contract")],
)
def test_a_right_system_is_right(name: str, phase: str, tmp_path: Path) -> None:
    """PostgreSQL is found and answers; the phase that catches the first system finds nothing in repeatable steps; the
    exported classes and the fast system answer as agreed."""
    code, report, text = grade(name, phase, tmp_path)
    assert code == 0 and report["verdict"] == "pass" and report["violations"] == [], text


@pytest.mark.slow
def test_the_first_system_loses_what_its_page_says(tmp_path: Path) -> None:
    """All safety phases: those that the page names fail, by the rules that it names, and the others pass."""
    code, report, text = grade("start", SAFETY, tmp_path)
    assert code == 1, text
    assert {(v["phase"], v["rule"]) for v in report["violations"]} == told(), text


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one-database", "saga", "embedded", "log", "entities", "fast"])
def test_a_right_system_passes_every_safety_phase(name: str, tmp_path: Path) -> None:
    """Kills of every service and of the database included."""
    code, report, text = grade(name, SAFETY, tmp_path)
    assert code == 0 and report["violations"] == [], text
    assert {report["phases"][phase]["verdict"] for phase in SAFETY.split(",")} == {"pass"}, text


@pytest.mark.slow
def test_the_fast_system_survives_every_fault_and_power_cuts(tmp_path: Path) -> None:
    """All faults of --full, and where the machine can cut the power, nothing acknowledged is lost. Up to 10 minutes."""
    code, report, text = grade("fast", SAFETY, tmp_path, 60, "--full", "--power-cut")
    assert code == 0 and report["violations"] == [], text
    figures = report["phases"]["faults"]["figures"]
    assert len({(fault["service"], fault["what"]) for fault in figures["faults"]}) == 13, text
    cuts = report["power_cut"]
    assert (cuts["cuts"] == 3 and cuts["lost"] == cuts["half_there"] == 0) if cuts["tested"] else cuts["why"], text
