"""bench/growth.py: a tiny shop under both strategies, its ladder of sizes, and the table of its record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import growth, tables
from bench.shopping.rows import logarithm
from bench.shopping.stream import Window


def test_both_strategies_have_every_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each strategy has the milliseconds and the bytes at each size, and the table has a column for each."""
    monkeypatch.setattr(growth, "QUICK_LEVELS", (1_000, 3_000))
    monkeypatch.setattr(growth, "WINDOW", Window(1, 5, 0))
    path = tmp_path / "growth.json"
    assert growth.main(["--quick", "--json", str(path)]) == 0
    rows = json.loads(path.read_text())["rows"]
    assert [row["what"].split(":")[0] for row in rows] == ["full", "shared"]
    for row in rows:
        least, most = row["ladder"]
        assert (least["visits"], most["visits"]) == (1_000, 3_000) and row["equal"] is True
        assert row["value"] == pytest.approx(most["median ms"] / least["median ms"])
        assert row["peers"] == {"a logarithm of the state": logarithm(1_000, 3_000, growth.EPOCH)}
        assert all(step["bytes a visit"] > 0 for step in row["ladder"])
    monkeypatch.setattr(tables, "rows_of", lambda name: rows)
    lines = tables.growth().splitlines()
    assert lines[0] == "| full: growth of the median 1,000-row epoch | 1,000 visits | 3,000 visits |"
    assert [line.split(" | ")[0] for line in lines[2:5]] == [f"| {unit}" for unit in list(least)[1:]]


def test_a_size_that_does_not_fit_is_left_out() -> None:
    """Of the sizes, those stay for which there is memory, and always the smallest one."""
    assert growth.fitting((10, 100, 1_000), growth.ROOM * 100) == [10, 100]
    assert growth.fitting((10, 100), 1) == [10]
