"""Lab 4 on Spark: the notebook's job, with the lab's solution and with other right ones, and its cells without Spark.

The job is slow, because it starts a JVM for each: `python -m pytest -m slow -n 0 tests/labs/test_lab_4_spark.py`.
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


def spark_cells() -> list[str]:
    """The code cells about Spark: from the one with the service to the one that runs the job."""
    cells = [c for c in json.loads((LAB / "lab.ipynb").read_text())["cells"] if c["cell_type"] == "code"]
    texts = ["".join(cell["source"]) for cell in cells]
    first, last = (next(n for n, text in enumerate(texts) if what in text) for what in ("SERVICE = ", "run = False"))
    return texts[first : last + 1]


def test_without_the_kit_the_cells_say_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a package is missing, "Run all" goes through, and one line says which package and what to do."""
    for missing in ("pyarrow", "pyspark", "sharedstate_lite"):
        with monkeypatch.context() as here:
            here.setitem(sys.modules, missing, None)
            names: dict[str, object] = {}
            for text in spark_cells():
                exec(text, names)
        said = f"{missing} is missing here. To run the cells below, run `make lab` in the kit's folder, "
        assert capsys.readouterr().out.startswith(said)


@pytest.mark.slow
@pytest.mark.parametrize("solution", [LAB / "solution.py", *RIGHT], ids=lambda path: path.stem)
def test_each_visit_once_each_product_once(solution: Path, tmp_path: Path) -> None:
    """A Python worker is killed. The answer is that of a batch; loads = different products, connections <= size."""
    (tmp_path / "job.py").write_text("\n\n".join(["import asyncio", *spark_cells(), PROGRAM]))
    (tmp_path / "solution.py").write_bytes(solution.read_bytes())
    words = [sys.executable, "job.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    visits, counts = json.loads(done.stdout.splitlines()[-1])
    assert visits == [[id, id * 7 % 40, 3 * (id * 7 % 40) + 7] for id in range(400)]
    assert counts["lookups"] == len({product for _, product, _ in visits}) == 40
    assert 1 <= counts["connections at most"] <= 2
