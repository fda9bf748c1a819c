"""What the tests with a browser need: Node.js, a Chromium, and the library that drives it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from sharedstate_lite.system.cache import cache_dir

HERE = Path(__file__).resolve().parent
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@pytest.fixture(scope="session")
def tools() -> dict[str, str]:
    """Where Node.js, Chromium and the library that drives it are; skips, in a plain word, where one is missing."""
    node, npm = shutil.which("node"), shutil.which("npm")
    chromium = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUMS)), None)
    missing = [name for name, found in (("Node.js", node), ("Chromium", chromium)) if found is None]
    if node is None or chromium is None:
        pytest.skip(f"no {' and no '.join(missing)} on this machine: tests/browser/README.md says what to install")
    driver = Path(os.environ.get("PLAYWRIGHT") or cache_dir("browser") / "node_modules" / "playwright-core")
    if not driver.is_dir():
        if npm is None:
            pytest.skip("no npm on this machine: tests/browser/README.md says what to install")
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, cache_dir("browser"))
        done = subprocess.run(
            [npm, "ci", "--no-audit", "--no-fund"], cwd=cache_dir("browser"), capture_output=True, text=True
        )
        if done.returncode:
            pytest.fail(f"npm could not install playwright-core: {done.stderr.strip().splitlines()[-1:]}")
    return {"node": node, "chromium": chromium, "driver": str(driver)}
