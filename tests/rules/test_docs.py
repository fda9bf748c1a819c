"""docs/rules.md names a test for every rule, in process and on Spark, and every named test exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/rules.md").read_text()
TABLE = re.findall(r"^\| (\d+) \| .* \| `([\w/.]+)::(\w+)` \| (.*) \|$", TEXT, re.MULTILINE)
PLACES = {"bins": "in bins", "Spark": "on Spark"}
"""What the last column says, and what the parameters of such a test are called."""


@pytest.fixture(scope="module")
def collected() -> list[str]:
    """The tests of the files in the table, slow ones too, with their parameters."""
    files = sorted(set(re.findall(r"`([\w/.]+)::", TEXT)))
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout.splitlines()


def test_every_rule_has_its_row() -> None:
    """Rules 1 to 23 are in the table, and no number twice."""
    numbers = [int(number) for number, _, _, _ in TABLE]
    assert numbers[:23] == list(range(1, 24)) and numbers == sorted(set(numbers))


def test_every_named_test_exists(collected: list[str]) -> None:
    """The named tests exist, and those of a rule have its number."""
    named = {line.split("[")[0] for line in collected}
    for number, file, name, _ in TABLE:
        assert name.startswith(f"test_rule_{int(number):02d}_")
        assert f"{file}::{name}" in named
    for test in re.findall(r"`([\w/.]+::\w+)`", TEXT):
        assert test in named


def test_what_is_said_of_spark_holds(collected: list[str]) -> None:
    """If the last column says bins or Spark, the test beside it has such a parameter; otherwise it names a test."""
    for number, file, name, cell in TABLE:
        for said in cell.split("; "):
            if said in PLACES:
                mine = [line for line in collected if line.startswith(f"{file}::{name}[")]
                assert any(PLACES[said] in line for line in mine), (number, said)
            else:
                assert "`" in said or said == "no: see below", (number, said)
