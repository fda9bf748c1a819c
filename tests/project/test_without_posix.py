"""What runs on Windows by its own code: everything but Spark, PostgreSQL, workers' processes and the grader's side.

The modules that only POSIX has are blocked, as they are absent there. tests/labs/test_labs_build.py runs the labs'
check in the same way. On Windows, this is run by .github/workflows/test.yml, which is not tried yet.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
BLOCKED = """
import os, sys
try:
    import psutil  # its own half for Linux uses resource
except ImportError:
    pass
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for name in ("fork", "killpg", "geteuid", "getegid", "sysconf"):
    vars(os).pop(name, None)
"""
ROOMS = ["data", "data.files", "show", "show.stepper", "replay", "oracle", "lessons", "doctor.lessons", "doctor.lab"]


def python(code: str, cwd: Path) -> str:
    """Run code in a process without those modules. Returns what it prints."""
    done = subprocess.run([sys.executable, "-c", BLOCKED + code], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_core_is_imported_and_used(tmp_path: Path) -> None:
    """The rooms of the first notebooks are imported, the example runs, and the lessons are copied."""
    python(
        "import importlib\n" + "".join(f"importlib.import_module('sharedstate_lite.{room}')\n" for room in ROOMS), ROOT
    )
    start = "import sys\nfrom sharedstate_lite.__main__ import main\n"
    assert "DuckDB computes the same" in python(f"{start}sys.argv = ['', 'example']\nmain()", tmp_path)
    python(f"{start}sys.argv = ['', 'lessons', 'mine']\nmain()", tmp_path)
    assert (tmp_path / "mine" / "notebooks" / "00-start-here.ipynb").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("number", ["00", "01", "02", "03", "04"])
def test_a_notebook_up_to_spark(number: str, tmp_path: Path) -> None:
    """The notebook's cells before its section on Spark run."""
    (path,) = (ROOT / "notebooks").glob(f"{number}-*.ipynb")
    notebook = nbformat.read(path, as_version=4)
    texts = [cell.source.partition("\n")[0] if cell.cell_type == "markdown" else "" for cell in notebook.cells]
    spark = [at for at, text in enumerate(texts) if text.startswith("## ") and text.endswith(" on Spark")]
    notebook.cells = notebook.cells[: (spark or [None])[0]]
    (tmp_path / "sitecustomize.py").write_text(BLOCKED)
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute(env=os.environ | {"PYTHONPATH": paths})
    assert len([cell for cell in notebook.cells if cell.get("execution_count")]) > 8
