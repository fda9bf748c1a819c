"""The checks that read the sources instead of running them: walls, lint, format, types; and that they can fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sharedstate_lite.system.cache import cache_dir

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ["sharedstate_lite", "grader", "labs", "data", "bench", "setup", "tests"]
LONGEST = 350
"""Lines that a source file may have."""


def python(*arguments: str | Path, folder: Path = ROOT) -> str:
    """What Python prints for the arguments, run in the folder; fails the test, with that, unless it exits with 0."""
    done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def walls(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts of pyproject.toml on the packages in the folder."""
    code = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    cache = cache_dir("import-linter") if folder == ROOT else folder / ".cache"
    # An installed copy, or an editable install, must not be taken for the packages in the folder.
    settings = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", code, "--cache-dir", str(cache)]
    return subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True)


def test_walls_stand() -> None:
    """Every import goes where docs/architecture.md lets it go."""
    done = walls(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


BREACHES = [
    ("words.py", "import pyspark", "only spark/ and worker/ import PySpark"),
    ("doctor/machine.py", "import pyspark", "only spark/ and worker/ import PySpark"),
    ("spark/__init__.py", "import pyspark", "only spark/ and worker/ import PySpark"),
    (
        "trace.py",
        "def draw() -> None:\n    import plotly.graph_objects",
        "only show/ draws, and only lab/ knows JupyterLab",
    ),
    ("engine.py", "import ipywidgets", "only show/ draws, and only lab/ knows JupyterLab"),
    ("shared.py", "import time", "an engine neither sleeps nor reads the clock"),
    ("full.py", "from .spark import session", "the core knows no Spark"),
    ("plan.py", "from sharedstate_lite.doctor.lab import kin", "nothing leans on the doctor or the lab"),
    ("kernels.py", "from . import engine", "kernels and arrangements know no engine and no SQL"),
    ("oracle.py", "from .kernels import net", "the oracle shares no code with what it checks"),
    ("words.py", "from .show import svg", "nobody below show/ knows it"),
    ("show/svg.py", "from ..arrangement import Arrangement", "show/ reaches into no engine"),
    ("sql.py", "from .kernels import net", "plans and SQL know no state"),
    ("full.py", "from .shared import Shared", "the strategies know neither each other nor their users"),
    ("recording.py", "from .engine import Engine", "a recording is plain data"),
    ("trace.py", "from .recording import Step", "no engine knows that it is recorded"),
    ("walk.py", "from .replay.read import Reader", "nothing leans on the replay but the package's face"),
    ("spark/bins.py", "import pyspark", "what runs in a bin, and the driver's half of an engine, need no Spark"),
    (
        "spark/live.py",
        "import psycopg",
        "only postgres/, and what reads and shares its server, speak to PostgreSQL",
    ),
    ("engine.py", "from . import postgres", "the PostgreSQL server knows no Spark and no state"),
    (
        "postgres/keeper.py",
        "import numpy",
        "what keeps a server and what fetches jars needs the standard library alone",
    ),
    ("spark/live.py", "from .. import worker", "nobody below worker/ knows it"),
    ("worker/csr.py", "from ..plan import Type", "what workers share knows no engine"),
    ("worker/things/lru.py", "import socket", "what a runtime owns knows no Spark and no socket"),
    ("worker/csr.py", "from ..challenge import rows", "nothing leans on the Grand Challenge"),
    ("challenge/single.py", "import numpy", "the single pass shares no code with what it checks"),
    ("words.py", "import grader", "the library knows no grader"),
    ("../grader/audit/rules.py", "from grader.judge import story", "the grader's rooms"),
    ("../grader/judge/story.py", "import time", "a record is judged without clock, socket, process or chance"),
    ("../grader/__init__.py", "import labs.one", "the grader knows neither library nor lab"),
    (
        "../grader/__init__.py",
        "from sharedstate_lite.plan import view as plan",
        "the grader knows neither library nor lab",
    ),
]


@pytest.mark.parametrize(("module", "line", "wall"), BREACHES, ids=[f"{m}: {text}" for m, text, _ in BREACHES])
def test_a_breach_is_seen(tmp_path: Path, module: str, line: str, wall: str) -> None:
    """An import through a wall, made on purpose in a copy, breaks the contract of that name."""
    for package in ("sharedstate_lite", "grader"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "sharedstate_lite" / "show").mkdir(exist_ok=True)
    (tmp_path / "sharedstate_lite" / "show" / "__init__.py").touch()
    with (tmp_path / "sharedstate_lite" / module).open("a") as source:
        source.write(f"\n{line}\n")
    done = walls(tmp_path)
    assert done.returncode == 1 and f"{wall} BROKEN" in done.stdout, done.stdout + done.stderr


def test_every_room_has_a_wall() -> None:
    """A folder of the library that no contract names would be a way round all of them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    walled = {name for contract in contracts for name in contract.get("protected_modules", [])}
    rooms = {f"sharedstate_lite.{init.parent.name}" for init in ROOT.glob("sharedstate_lite/*/__init__.py")}
    assert rooms - walled == set(), "name it in a protected contract of pyproject.toml, with those who may import it"


def test_lint() -> None:
    """ruff finds nothing, in sources, tests and notebooks."""
    python("-m", "ruff", "check", ".")


def test_format() -> None:
    """Everything is as ruff formats it."""
    python("-m", "ruff", "format", "--check", ".")


def test_types() -> None:
    """mypy --strict passes on both packages."""
    python("-m", "mypy")


def test_types_can_fail(tmp_path: Path) -> None:
    """The settings that mypy takes from pyproject.toml refuse an untyped function."""
    (tmp_path / "loose.py").write_text("def loose(x):\n    return x\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", tmp_path / "loose.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "no-untyped-def" in done.stdout, done.stdout + done.stderr


def test_files_are_small() -> None:
    """No source file has more lines than a reader takes in at one sitting."""
    names = (path for folder in SOURCES for path in (ROOT / folder).rglob("*.py"))
    sizes = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in names}
    assert sizes and {name: lines for name, lines in sizes.items() if lines > LONGEST} == {}
