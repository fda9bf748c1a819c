"""Runs notebooks, and keeps the executed ones in the cache.

An executed notebook is kept under a name that contains a hash of everything that its outputs depend on: the notebook,
the library, the data and the versions of the packages.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

from sharedstate_lite.errors import Error
from sharedstate_lite.show.checks import UNATTENDED
from sharedstate_lite.system.cache import cache_dir

from .progress import Progress, duration

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT = 900
"""Seconds after which a cell is stopped."""
SOURCES = ("sharedstate_lite", "data", "bench/records", "setup/requirements-dev.lock")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


class SiteError(Error):
    """The site cannot be built. The message says why, and nothing was written."""


class ThisPython(AsyncKernelManager):
    """A kernel of the Python that runs the build."""

    @property
    def kernel_spec(self) -> KernelSpec:
        launch = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=launch, name="website")


def executed(notebooks: Sequence[Path], say: Callable[[str], None] = print) -> list[Any]:
    """Return the notebooks with their outputs. Those that the cache does not contain are run first.

    Raises SiteError if a cell fails.
    """
    kept = cache_dir("site")
    library = fingerprint()
    paths = [kept / f"{path.stem}-{_hash(path.read_bytes(), library)}.ipynb" for path in notebooks]
    seconds = _seconds(kept)
    todo = [at for at, path in enumerate(paths) if not path.exists()]
    if len(todo) < len(paths):
        say(f"{len(paths) - len(todo)} of {len(paths)} notebooks have not changed since they were last run")
    progress = Progress([(notebooks[at].stem, seconds.get(notebooks[at].stem)) for at in todo])
    for number, at in enumerate(todo):
        began = time.monotonic()
        progress.begin(number)
        notebook = run(notebooks[at], progress.done)
        progress.end()
        seconds[notebooks[at].stem] = round(time.monotonic() - began, 1)
        say(f"{notebooks[at].stem}: {duration(seconds[notebooks[at].stem])}")
        for old in kept.glob(f"{notebooks[at].stem}-{'[0-9a-f]' * 16}.ipynb"):
            old.unlink()
        _write(paths[at], nbformat.writes(notebook))
        _write(kept / "seconds.json", json.dumps(seconds, indent=1))
    return [nbformat.read(path, as_version=4) for path in paths]


def run(path: Path, done: Callable[[float], None]) -> Any:
    """Run a notebook from an empty kernel, and return it. ``done`` is called with the share of its cells that have run.

    Raises SiteError if a cell fails, or if the kernel stops.
    """
    notebook = nbformat.read(path, as_version=4)
    code = sum(cell.cell_type == "code" for cell in notebook.cells)
    ran = 0

    def after(**_: Any) -> None:
        nonlocal ran
        ran += 1
        done(ran / code)

    with tempfile.TemporaryDirectory(prefix="site") as short, tempfile.TemporaryFile("w+") as log:
        # Unix sockets in this folder, instead of ports of this machine.
        manager = ThisPython(transport="ipc", connection_file=f"{short}/k.json")
        folder = {"metadata": {"path": str(path.parent)}}
        client = NotebookClient(
            notebook, km=manager, timeout=TIMEOUT, resources=folder, on_cell_executed=after, allow_errors=False
        )
        paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        settings = {**os.environ, "PYTHONPATH": paths, "SCALE": "small", UNATTENDED: "1"}
        try:
            client.execute(env=settings, stdout=log, stderr=log, cleanup_kc=True)
        except CellExecutionError as error:
            said = _ANSI.sub("", error.traceback)
            raise SiteError(f"{path}: a cell raised {error.ename}: {error.evalue}\n{said}") from None
        except (DeadKernelError, AssertionError):
            # On Ctrl-C and SIGTERM, nbclient stops the kernel, and then fails with an AssertionError of its own.
            why = "the build was interrupted, or the machine ran out of memory"
            raise SiteError(f"{path}: its kernel stopped: {why}; run the same command again") from None
    return notebook


def fingerprint() -> str:
    """Return a hash of the library, the data and the versions of the packages."""
    files: list[Path] = []
    for source in SOURCES:
        path = ROOT / source
        files += sorted(p for p in path.rglob("*") if p.is_file() and p.suffix != ".pyc") if path.is_dir() else [path]
    return _hash(*(part for file in files for part in (str(file.relative_to(ROOT)), file.read_bytes())))


def _hash(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()[:16]


def _seconds(folder: Path) -> dict[str, float]:
    """Return how many seconds each notebook took the last time it was run."""
    try:
        found = json.loads((folder / "seconds.json").read_text())
        return {str(name): float(seconds) for name, seconds in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _write(path: Path, text: str) -> None:
    """Write a file so that it appears either complete or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
