"""plotly.js for the site: one file of npm's package, by version and SHA-512, kept in the cache.

Its version is that of the Python package's own plotly.js, which draws the same figures in JupyterLab.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

from sharedstate_lite.system.cache import cache_dir

from .npm import npm

PACKAGE = "plotly.js-basic-dist-min"
LOCK = Path(__file__).with_name("package-lock.json")
_FILE = "package/plotly-basic.min.js"
SECONDS = 120


def version() -> str:
    """Return the version in package-lock.json."""
    return str(_locked()["version"])


def script(say: Callable[[str], None] = print) -> str | None:
    """Return plotly.js from the cache, or from npm. If it cannot be had, ``say`` says why, and charts stay tables."""
    kept = cache_dir("plotly") / f"plotly-basic-{version()}.min.js"
    if kept.exists():
        return kept.read_text(encoding="utf-8")
    try:
        text = unpacked(_fetched())
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        say(f"plotly.js {version()} cannot be fetched by npm, so charts are tables on the site ({error})")
        return None
    part = kept.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(kept)
    return text


def unpacked(archive: bytes) -> str:
    """Return plotly.js out of npm's archive. Raises ValueError if its SHA-512 is not the one of package-lock.json."""
    digest = base64.b64encode(hashlib.sha512(archive).digest()).decode()
    if _locked()["integrity"] != f"sha512-{digest}":
        raise ValueError("npm's file is not the one of website/package-lock.json")
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as files:
        found = files.extractfile(_FILE)
        assert found is not None
        return found.read().decode("utf-8")


def _fetched() -> bytes:
    command = npm()
    if command is None:
        raise OSError("there is no npm")
    with tempfile.TemporaryDirectory(prefix="plotly") as folder:
        pack = [
            *command,
            "pack",
            f"{PACKAGE}@{version()}",
            "--silent",
            "--fetch-retries=1",
            "--pack-destination",
            folder,
        ]
        done = subprocess.run(pack, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
        if done.returncode:
            raise OSError(" ".join(done.stderr.split())[-200:] or f"npm ended with {done.returncode}")
        (archive,) = Path(folder).glob("*.tgz")
        return archive.read_bytes()


def _locked() -> dict[str, str]:
    found: dict[str, str] = json.loads(LOCK.read_text(encoding="utf-8"))["packages"][f"node_modules/{PACKAGE}"]
    return found
