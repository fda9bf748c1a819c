"""The notebooks in a real browser: JupyterLab, a keyboard, and screenshots to look at.

Slow, and only where Node.js, npm and a Chromium are installed; see README.md in this folder.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from sharedstate_lite.doctor.copies import copy_lessons
from sharedstate_lite.doctor.lab import JupyterServer
from sharedstate_lite.system.cache import cache_dir

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LOOKS = [("light", 1280), ("dark", 1280), ("light", 900), ("dark", 900)]
SECONDS = 600
"""For running all cells of one notebook."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shots() -> Path:
    """The folder for the screenshots: SHOTS, or one in the caches."""
    folder = Path(os.environ.get("SHOTS") or cache_dir("browser", "shots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def address(tools: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A JupyterLab of the tests' own, on a free port, with a learner's copies; ended with all that it started.

    Git sees nothing of what happened in between.
    """
    root = tmp_path_factory.mktemp("learner") / "work"
    copy_lessons(root)
    before = status()
    with pytest.MonkeyPatch.context() as patch:
        # Separate settings, so that the user's theme stays; the package of this checkout.
        patch.setenv("SHAREDSTATE_LITE_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("PYTHONPATH", str(ROOT))
        server = JupyterServer(root, "lab")
        try:
            yield server.ready()
        finally:
            server.stop()
        assert status() == before


def status() -> str:
    """What git says about the files of this checkout."""
    command = ["git", "status", "--porcelain"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def steppers(path: Path) -> int:
    """How many cells of a notebook end in a stepper, as its source says."""
    cells = nbformat.read(path, as_version=4).cells
    return sum("show.stepper(" in c.source for c in cells if c.cell_type == "code")


@pytest.mark.parametrize(("theme", "width"), LOOKS, ids=[f"{t}-{w}" for t, w in LOOKS])
@pytest.mark.parametrize("path", NOTEBOOKS, ids=[p.stem for p in NOTEBOOKS])
def test_a_notebook_in_the_browser(
    path: Path, theme: str, width: int, address: str, tools: dict[str, str], shots: Path
) -> None:
    """Every cell runs; each prediction is answered, and each stepper stepped and forked, by keyboard."""
    told: dict[str, Any] = {
        "address": address,
        "notebooks": [f"notebooks/{path.name}"],
        "looks": [[theme, width]],
        "seconds": SECONDS,
    }
    told |= {"out": str(shots), "chromium": tools["chromium"], "restart": (theme, width) == LOOKS[0]}
    done = subprocess.run(
        [tools["node"], str(HERE / "drive.js"), json.dumps(told)],
        env={**os.environ, "PLAYWRIGHT": tools["driver"]},
        capture_output=True,
        text=True,
        timeout=SECONDS * 2,
    )
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout)[-1]
    assert last["predictions"] == sum("show.predict(" in c.source for c in nbformat.read(path, as_version=4).cells)
    seen = [s for s in json.loads(done.stdout) if "steppers" not in s]
    assert len(seen) == steppers(path)
    for each in seen:
        assert each.get("folds", 2) == 2, "an operator folds and opens again by Enter"
    assert ["run" in s["gone"] for s in seen if "gone" in s] == [True] * (steppers(path) > 0 and told["restart"])
    if steppers(path):
        assert any("wrong" in s and "forked" in s for s in seen), "no stepper asked a question that fits"
