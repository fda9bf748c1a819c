"""bench/managed.py: over few keys all stores agree, and every row says what it measured and against what."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import managed

FIELDS = {"what", "value", "unit", "peers", "ratio", "target", "holds", "equal"}


def test_all_stores_agree_and_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every row has equal answers, the other stores of the kit, and RocksDB as a peer."""
    monkeypatch.setattr(managed, "QUICK", managed.Size(2_000, 1, 5))
    monkeypatch.setattr(managed, "EPOCH", 500)
    assert managed.main(["--quick", "--json", str(tmp_path / "rows")]) == 0
    told = json.loads((tmp_path / "rows").read_text())["rows"]
    assert all(set(row) == FIELDS and row["equal"] for row in told)
    assert {row["target"] for row in told if row["what"].startswith("updates, uniform")} == {4.0, 0.9}
    others = {f"the kit's {kind}" for kind in managed.KIT[1:]} | {"RocksDB", "a Python dict"}
    assert all(others <= set(row["peers"]) for row in told if "past" not in row["what"])


def test_a_side_that_differs_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A peer that loses an update makes the answers differ, and the command fails."""
    monkeypatch.setattr(managed, "QUICK", managed.Size(300, 1, 5))
    monkeypatch.setattr(managed.PlainDict, "epoch", lambda self, keys, values: None)
    assert managed.main(["--quick", "--only", "uniform", "--json", str(tmp_path / "rows")]) == 1
    assert not any(row["equal"] for row in json.loads((tmp_path / "rows").read_text())["rows"])
