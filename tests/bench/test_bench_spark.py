"""bench/spark_views.py: it runs by itself, and its rows say what they measured."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def alone(folder: Path, only: str) -> list[dict[str, Any]]:
    """The rows that the benchmark writes where it is run from another folder, in its quick version."""
    out = folder / "rows.json"
    command = [sys.executable, str(ROOT / "bench/spark_views.py"), "--quick", "--only", only, "--json", str(out)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(out.read_text())["rows"]
    return rows


@pytest.mark.slow
def test_it_runs_alone_and_tells_the_parts_of_a_micro_batch(tmp_path: Path) -> None:
    """The latency row: a step, the parts that Spark tells of it, and a read beside the state reader."""
    rows = alone(tmp_path, "latency")
    assert [row["what"] for row in rows] == [
        f"{kind}: {what}" for kind in ("full", "shared") for what in ("step of one row", "read of one key")
    ]
    for row in rows:
        assert row["value"] > 0 and all(value >= 0 for value in row["peers"].values())
    assert {"addBatch", "queryPlanning", "walCommit"} <= set(rows[0]["peers"])
    assert rows[0]["value"] >= 0.9 * rows[0]["peers"]["triggerExecution"]


@pytest.mark.slow
def test_an_engine_that_nobody_steps_is_told_beside_sparks_pause(tmp_path: Path) -> None:
    """The idle row: cores and a step, each with the kit's pause and with Spark's."""
    rows = alone(tmp_path, "idle")
    assert [row["what"] for row in rows] == ["idle: cores taken", "idle: then a step"]
    for row in rows:
        assert row["value"] > 0 and list(row["peers"]) == ["10ms"] and row["peers"]["10ms"] > 0


@pytest.mark.slow
def test_what_a_start_costs_is_told_for_each_side(tmp_path: Path) -> None:
    """A line a side: seconds, CPU seconds, and the first side's as a multiple."""
    command = [sys.executable, str(ROOT / "bench/spark_start.py"), "--rounds", "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    title, *lines = done.stdout.splitlines()
    assert title.split() == ["session", "first", "epoch", "install", "CPU", "memory"]
    cells = r"(?: +[\d.]+ s \([\d.]+\)){4} +\d+ MB \([\d.]+\)"
    assert [re.sub(cells, "", line).strip() for line in lines] == [
        "without",
        "package",
        "declared",
        "archive",
        "workers",
    ]
