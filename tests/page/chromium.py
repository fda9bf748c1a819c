"""What the tests with a browser need: Node.js, a Chromium, and the library that drives it."""

from __future__ import annotations

import os

import pytest

from website.npm import node, packages
from website.picture import chromium as found


@pytest.fixture(scope="session")
def tools() -> dict[str, str]:
    """Where Node.js, Chromium and the library that drives it are; skips, in a plain word, where one is missing."""
    program = node()
    chromium = found()
    missing = [name for name, found in (("Node.js", program), ("Chromium", chromium)) if found is None]
    if program is None or chromium is None:
        pytest.skip(f"no {' and no '.join(missing)} on this machine: tests/browser/README.md says what to install")
    try:
        installed = packages()
    except OSError as error:
        pytest.skip(str(error))
    driver = os.environ.get("PLAYWRIGHT") or str(installed / "playwright-core")
    return {"node": program, "chromium": chromium, "driver": driver, "axe": str(installed / "axe-core" / "axe.min.js")}
