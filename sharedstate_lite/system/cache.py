"""One folder for files that can be made again: logs, jars, Spark's temporary files, Jupyter's settings.

Its root is the first of these that can be written:

    $SHAREDSTATE_LITE_CACHE    if it is set; then no other place is tried
    .cache in the checkout     if this package is in one
    the user's cache folder    ~/.cache/sharedstate-lite, or ~/Library/Caches/sharedstate-lite on macOS

Uses the standard library only: the doctor and the setup import it before any package is installed.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path

from sharedstate_lite.errors import Error

VARIABLE = "SHAREDSTATE_LITE_CACHE"
"""The environment variable that sets the folder."""
KEPT_LOGS = 10
"""The number of old logs of one name that are kept."""


def checkout() -> Path | None:
    """Return the root of the checkout that this package is in, or None if it was installed without one."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").is_file() and (root / "Makefile").is_file() else None


def cache_dir(*parts: str) -> Path:
    """Return the absolute path of the folder ``parts`` in the cache. The folder exists and can be written.

    Raises Error if no such folder can be made.
    """
    named = os.environ.get(VARIABLE)
    if named:
        roots = [Path(named).expanduser().absolute()]
    else:
        home = checkout()
        roots = [*([home / ".cache"] if home else []), _user_cache()]
    refusals = []
    for root in roots:
        path = root.joinpath(*parts)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            refusals.append(f"{path} ({error.strerror or error})")
            continue
        if os.access(path, os.W_OK | os.X_OK):
            return path
        refusals.append(f"{path} (not writable)")
    raise Error(
        f"cache folder: {', '.join(refusals)}: the kit must be able to write there; "
        f"set {VARIABLE} to a folder that you may write to"
    )


def new_log(name: str) -> Path:
    """Create an empty file ``logs/NAME-....log`` in the cache, and delete older logs of that name."""
    folder = cache_dir("logs")
    for old in sorted(folder.glob(f"{name}-*.log"))[: 1 - KEPT_LOGS]:
        # A log of the last day may belong to a process that still runs.
        with contextlib.suppress(OSError):
            if time.time() - old.stat().st_mtime > 86_400:
                old.unlink()
    handle, path = tempfile.mkstemp(dir=folder, prefix=f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-", suffix=".log")
    os.close(handle)
    return Path(path)


def _user_cache() -> Path:
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "sharedstate-lite"
