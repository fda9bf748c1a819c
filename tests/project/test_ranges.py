"""The ranges of pyproject.toml: the package installs beside others, and the core works at both ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = ["sql", "plan", "storage", "kernels", "changelog", "engine", "partial"]
"""Folders of tests that need the declared dependencies alone."""


@pytest.mark.slow
@pytest.mark.parametrize("resolution", ["lowest-direct", "highest"])
def test_the_core_at_both_ends_of_the_ranges(resolution: str, tmp_path: Path) -> None:
    """With the lowest and the newest versions that the ranges name, nothing conflicts and the core's tests pass."""
    uv = next((ROOT / ".cache").glob("uv-*"), None)
    if uv is None:
        pytest.skip("uv is not in the cache folder: the environment was not made by make")
    python = tmp_path / "venv" / "bin" / "python"
    pip = [uv, "pip", "install", "--quiet", "--python", python]
    subprocess.run(
        [uv, "venv", "--quiet", "--no-project", "--python", sys._base_executable, tmp_path / "venv"], check=True
    )
    subprocess.run([*pip, f"--resolution={resolution}", ROOT], check=True)
    subprocess.run([*pip, "pytest", "hypothesis", "psutil"], check=True)
    subprocess.run([uv, "pip", "check", "--quiet", "--python", python], check=True)
    tests = [ROOT / "tests" / name for name in CORE]
    done = subprocess.run([python, "-m", "pytest", "-q", *tests], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
