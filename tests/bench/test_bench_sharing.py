"""bench/sharing.py: a ladder runs by itself, and its rows say what was measured and what is missed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = str(ROOT / "bench/sharing.py")


def test_an_unknown_ladder_is_refused_before_anything_runs() -> None:
    """The name of no ladder ends the command at once, and tells those that there are."""
    done = subprocess.run([sys.executable, SCRIPT, "--only", "sharks"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "pool, async, cache, dedup, pagerank, components, memory" in done.stderr


@pytest.mark.slow
def test_a_ladder_runs_alone(tmp_path: Path) -> None:
    """Rows of one ladder on Spark: every rung is a peer, answers are equal, the shuffle is held to its bound."""
    out = tmp_path / "rows.json"
    command = [sys.executable, SCRIPT, "--quick", "--only", "dedup", "--json", str(out)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text())["rows"]
    assert [row["what"] for row in rows][:2] == ["one shared set: records shuffled", "one shared set: bytes shuffled"]
    assert rows[0]["holds"] is True and rows[0]["target"] == 1.0 and all(row["equal"] for row in rows)
    timed = rows[-2]
    assert set(timed["peers"]) == {"shuffle, then a set", "dropDuplicates", "a set per task, then shuffle"}
    assert len(timed["ladder"]) == 4 and all(step["s"] > 0 for step in timed["ladder"])
