"""The website in a real browser: every page, at both widths and in both themes, and every step of every stepper.

Notebooks that have not changed since they were last run are taken from the cache; the others are run, which takes
minutes. Screenshots of all pages are in SHOTS, or in the caches.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sharedstate_lite.system.cache import cache_dir
from website.execution import ROOT, executed
from website.publish import publish

HERE = Path(__file__).resolve().parent
LOOKS = [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)]

pytestmark = pytest.mark.slow


class Quiet(SimpleHTTPRequestHandler):
    """A web server that prints nothing."""

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site with all notebooks."""
    folder = tmp_path_factory.mktemp("site") / "site"
    paths = sorted((ROOT / "notebooks").glob("*.ipynb"))
    publish({path.name: each for path, each in zip(paths, executed(paths), strict=True)}, folder)
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The address of the site."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(("theme", "width"), LOOKS, ids=[f"{t}-{w}" for t, w in LOOKS])
def test_every_page(site: Path, address: str, tools: dict[str, str], theme: str, width: int) -> None:
    """No page is too wide, asks a network or raises; pictures are readable and follow the theme; steppers step."""
    shots = Path(os.environ.get("SHOTS") or cache_dir("browser", "shots")) / "site"
    shots.mkdir(parents=True, exist_ok=True)
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html") if path.name != "404.html")
    told = {"address": address, "pages": pages, "looks": [[theme, width]], "chromium": tools["chromium"]}
    done = subprocess.run(
        [tools["node"], str(HERE / "site.js"), json.dumps({**told, "out": str(shots)})],
        env={**os.environ, "PLAYWRIGHT": tools["driver"]},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []
    assert len(pages) > 20
