"""Contracts between packages, lint, format, types and scripts; and that each of these checks can fail."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sharedstate_lite.system.cache import cache_dir
from website.npm import node

ROOT = Path(__file__).resolve().parents[2]


def python(*arguments: str | Path, folder: Path = ROOT) -> str:
    """What Python prints for the arguments, run in the folder; fails the test, with that, unless it exits with 0."""
    done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def contracts(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts of pyproject.toml on the packages in the folder."""
    code = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    cache = cache_dir("import-linter") if folder == ROOT else folder / ".cache"
    # An installed copy, or an editable install, must not be taken for the packages in the folder.
    settings = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", code, "--cache-dir", str(cache)]
    return subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True)


def test_contracts_hold() -> None:
    """Every import goes where docs/architecture.md lets it go."""
    done = contracts(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


BREACHES = {
    "the rooms of the library, each below those that may import it": ("storage/encoding.py", "from ..show import svg"),
    "only spark/ and worker/ import PySpark": ("doctor/machine.py", "import pyspark"),
    "only loops/ compiles": ("storage/batch.py", "import numba"),
    "only show/ draws, and only doctor/lab knows JupyterLab": ("engine/trace.py", "import plotly.graph_objects"),
    "an engine neither sleeps nor reads the clock": ("dataflow/shared.py", "import time"),
    "what runs in a bin, and the driver's half of an engine, need no Spark": ("spark/bins/bin.py", "import pyspark"),
    "only postgres/, and what reads and shares its server, speak to PostgreSQL": (
        "spark/driver/engine.py",
        "import psycopg",
    ),
    "what keeps a server and what fetches jars needs the standard library alone": (
        "postgres/supervisor.py",
        "import numpy",
    ),
    "the single pass shares no code with what it checks": ("lessons/grand_challenge/single.py", "import numpy"),
    "what workers share knows no engine": ("worker/handles/csr.py", "from ...plan.nodes import Type"),
    "what a runtime owns knows no Spark and no socket": ("worker/runtime/lru.py", "import socket"),
    "the oracle shares no code with what it checks": ("oracle.py", "from .kernels.join import net"),
    "show/ reaches into no engine": ("show/svg.py", "from ..storage.arrangement import Arrangement"),
    "full, shared and partial state do not know one another": ("dataflow/full.py", "from .shared import Shared"),
    "a recording is plain data": ("replay/recording.py", "from ..engine.engine import Engine"),
    "the library knows no grader": ("plan/view.py", "import grader"),
    "the grader's rooms": ("../grader/audit/rules.py", "from grader.verdict import story"),
    "a record is judged without clock, socket, process or chance": ("../grader/verdict/story.py", "import time"),
    "the grader knows neither library nor lab": ("../grader/__init__.py", "import labs.one"),
    "only powercut/ is a file system": ("../grader/audit/rules.py", "import mfusepy"),
}
"""Each contract of pyproject.toml, and a line in a module that breaks it."""


def test_a_breach_is_seen(tmp_path: Path) -> None:
    """Imports that each contract forbids, made on purpose in a copy, break the contract of that name."""
    for package in ("sharedstate_lite", "grader"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for module, line in BREACHES.values():
        with (tmp_path / "sharedstate_lite" / module).open("a") as source:
            source.write(f"\n{line}\n")
    done = contracts(tmp_path)
    unseen = [name for name in BREACHES if f"{name} BROKEN" not in done.stdout]
    assert done.returncode == 1 and unseen == [], done.stdout + done.stderr


def test_every_contract_has_a_breach() -> None:
    """No contract of pyproject.toml goes without a line that breaks it."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert {contract["name"] for contract in settings["contracts"]} == set(BREACHES)


def test_lint() -> None:
    """ruff finds nothing, in sources, tests and notebooks."""
    python("-m", "ruff", "check", ".")


def test_format() -> None:
    """Everything is as ruff formats it."""
    python("-m", "ruff", "format", "--check", ".")


def test_types() -> None:
    """mypy --strict passes on both packages."""
    python("-m", "mypy")


SCRIPT = ROOT / "sharedstate_lite/show/page/page.js"
SCRIPTS = [
    path for folder in ("sharedstate_lite", "website", "tests") for path in sorted((ROOT / folder).rglob("*.js"))
]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.name)
def test_scripts(path: Path) -> None:
    """Node.js can read each script. That of a page is no module, and an editor checks its types."""
    program, text = node(), path.read_text(encoding="utf-8")
    if program is None:
        pytest.skip("no Node.js on this machine")
    kind = "--input-type=module" if re.search(r"^export ", text, re.MULTILINE) else "--input-type=commonjs"
    done = subprocess.run([program, kind, "--check"], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert path != SCRIPT or (
        text.startswith("// @ts-check\n") and not re.search(r"^\s*(import|export)\b", text, re.MULTILINE)
    )


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
