"""Each lab in labs/ is proven: its solution, its stub, its wrong solutions and its notebook."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grader.lab.command import main

LABS = sorted(path.parent for path in (Path(__file__).resolve().parents[2] / "labs").glob("*/lab.toml"))


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_a_lab_is_built(lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The solution has every point, the stub none, and each wrong solution fails where it should."""
    assert main(["build", str(lab), "--out", str(tmp_path / "out")]) == 0, capsys.readouterr().err
    proof = json.loads((tmp_path / "out" / "proof.json").read_text())
    assert len(proof["mutants"]) >= 8
