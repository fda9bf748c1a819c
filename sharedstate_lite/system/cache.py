"""The cache: a folder for files that can be recreated, such as logs, jars and Spark's temporary files.

The cache is the first of these folders that the kit can write to:

    $SHAREDSTATE_LITE_CACHE    if the variable is set; in this case, the other folders are not tried
    .cache in the checkout     if this package is in a checkout
    the user's cache folder    ~/.cache/sharedstate-lite, or ~/Library/Caches/sharedstate-lite on macOS

This module uses only the standard library, because the doctor and the setup import it before any package is installed.
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
"""The environment variable that sets the cache folder."""
KEPT_LOGS = 10
"""The number of logs to keep for each name, including the new log. Logs from the last 24 hours are always kept."""


def checkout() -> Path | None:
    """Return the root folder of the checkout that contains this package, or None if it is not in a checkout."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").is_file() and (root / "Makefile").is_file() else None


def cache_dir(*parts: str) -> Path:
    """Create a folder in the cache if it does not exist, and return its absolute path.

    ``parts`` are the components of its path below the cache folder. Raises Error if the folder cannot be created, or if
    the kit cannot write to it.
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
        if root.parts[0] == "~":
            refusals.append(f"{path} (HOME is not set)")
            continue
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            refusals.append(f"{path} ({error.strerror or error})")
            continue
        if os.access(path, os.W_OK | os.X_OK):
            return path
        refusals.append(f"{path} (not writable)")
    raise Error(
        f"cannot write to the cache folder: {', '.join(refusals)}; set {VARIABLE} to a folder that you can write to"
    )


def new_log(name: str) -> Path:
    """Create an empty log file in the cache and return its path. Delete old logs with the same name.

    The path is ``logs/NAME-DATE-TIME-RANDOM.log`` in the cache. `KEPT_LOGS` is the number of logs to keep.
    """
    folder = cache_dir("logs")
    for old in sorted(folder.glob(f"{name}-*.log"))[: 1 - KEPT_LOGS]:
        # A log that was written in the last 24 hours may belong to a process that is still running.
        with contextlib.suppress(OSError):
            if time.time() - old.stat().st_mtime > 86_400:
                old.unlink()
    handle, path = tempfile.mkstemp(dir=folder, prefix=f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-", suffix=".log")
    os.close(handle)
    return Path(path)


def _user_cache() -> Path:
    """Return the kit's folder in the user's cache folder. The path begins with ``~`` if the home folder is unknown.

    The home folder is unknown if HOME is not set and /etc/passwd has no entry for the user id, as in some containers.
    """
    base = "~/Library/Caches" if sys.platform == "darwin" else os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.path.expanduser(base), "sharedstate-lite")
