"""The wheel, installed beside nothing of the checkout: its commands, its lessons, its labs, and README's code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_wheel_is_enough(tmp_path: Path) -> None:
    """With `pip install sharedstate-lite[all]`, README's code, a lesson, a lab and the grader run."""
    uv = next((ROOT / ".cache").glob("uv-*"), None)
    if uv is None:
        pytest.skip("uv is not in the cache folder: the environment was not made by make")
    subprocess.run([uv, "build", "--quiet", "--wheel", "--out-dir", tmp_path, ROOT], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    venv = tmp_path / "venv"
    subprocess.run([uv, "venv", "--quiet", "--no-project", "--python", sys._base_executable, venv], check=True)
    lock = ["--constraint", ROOT / "setup" / "requirements.lock"]
    pip = [uv, "pip", "install", "--quiet", "--python", venv / "bin" / "python"]
    subprocess.run([*pip, *lock, f"sharedstate-lite[all] @ {wheel.as_uri()}"], check=True)
    home = tmp_path / "home"
    home.mkdir()
    left_out = ("PYTHONPATH", "SHAREDSTATE_LITE_CACHE", "VIRTUAL_ENV")
    env = {name: value for name, value in os.environ.items() if name not in left_out} | {"HOME": str(home)}
    env["PATH"] = f"{venv / 'bin'}{os.pathsep}{env['PATH']}"

    def run(*words: str | Path, cwd: Path = home) -> str:
        done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    assert str(venv) in run("python", "-c", "import sharedstate_lite; print(sharedstate_lite.__file__)")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (home / "readme.py").write_text("\n".join(blocks))
    run("python", "readme.py")
    assert "full" in run("sharedstate", "example")
    assert "ok    Python" in run("sharedstate", "doctor")
    run("sharedstate", "stepper", "page.html")
    run("sharedstate", "lessons", "mine")
    run("sharedstate", "lessons", "mine")  # changes nothing
    notebooks = home / "mine" / "notebooks"
    assert len(list(notebooks.glob("*.ipynb"))) == len(list((ROOT / "notebooks").glob("*.ipynb")))
    run("jupyter", "execute", "00-start-here.ipynb", cwd=notebooks)
    assert "the solution has every point" in run(
        "grader", "lab", "build", home / "mine" / "labs" / "1-max-and-join", "--out", home / "built"
    )
    student = home / "built" / "student"
    (student / "solution.py").write_bytes((ROOT / "labs" / "1-max-and-join" / "solution.py").read_bytes())
    counted = re.search(r"^visible: (\d+) of (\d+) pass", run("grader", "check", cwd=student), re.M)
    assert counted and counted[1] == counted[2] != "0"
