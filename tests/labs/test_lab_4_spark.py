"""Lab 4 on Spark: the notebook's job, with the lab's solution and with the other right ones.

Slow, because it starts a JVM for each: `python -m pytest -m slow -n 0 tests/labs/test_lab_4_spark.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

LAB = Path(__file__).resolve().parents[2] / "labs" / "4-sharing-on-spark"
RIGHT = sorted((Path(__file__).resolve().parent / "right" / LAB.name).glob("*.py"))
PROGRAM = """
enriched, counts = on_spark()
print(json.dumps([sorted(enriched.values.tolist()), counts]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("solution", [LAB / "solution.py", *RIGHT], ids=lambda path: path.stem)
def test_each_visit_once_each_product_once(solution: Path, tmp_path: Path) -> None:
    """A Python worker is killed. The answer is that of a batch; loads = different products, connections <= size."""
    cells = [c for c in json.loads((LAB / "lab.ipynb").read_text())["cells"] if c["cell_type"] == "code"]
    texts = ["".join(cell["source"]) for cell in cells]
    first, last = (next(n for n, text in enumerate(texts) if what in text) for what in ("SERVICE = ", "def on_spark"))
    (tmp_path / "job.py").write_text("\n\n".join(["import asyncio", *texts[first : last + 1], PROGRAM]))
    (tmp_path / "solution.py").write_bytes(solution.read_bytes())
    words = [sys.executable, "job.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    visits, counts = json.loads(done.stdout.splitlines()[-1])
    assert visits == [[id, id * 7 % 40, 3 * (id * 7 % 40) + 7] for id in range(400)]
    assert counts["lookups"] == len({product for _, product, _ in visits}) == 40
    assert 1 <= counts["connections at most"] <= 2
