"""The one folder for everything that can be made again: logs, jars, shims, Spark's scratch, Jupyter's own files.

``cache_dir("jars")`` is a folder of that name, made if it was not there. Where the
root is, in this order:

    SHAREDSTATE_LITE_CACHE     if it is set and not empty, wherever it points
    .cache in the checkout     where this package lies in one and may write there
    the user's cache folder    otherwise (an installed package, a read-only checkout)

Only the standard library is used, so that the doctor and the set-up can call it on
a machine where nothing else works. Nothing in the folder is ever needed: ``make
clean`` removes the checkout's ``.cache``, and what is missing is made anew.
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
"""The environment variable that moves the folder."""
KEPT_LOGS = 10
"""How many logs of one name stay."""


def checkout() -> Path | None:
    """The root of the checkout that this package lies in, or None where it was installed without one."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").is_file() and (root / "Makefile").is_file() else None


def cache_dir(*parts: str) -> Path:
    """The folder ``parts`` below the cache's root, as an absolute path; it exists and can be written when this returns.

    Raises :class:`~sharedstate_lite.errors.Error` where no such folder can be made,
    naming what was tried and the variable that moves it.
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
        f"set {VARIABLE} to a folder that you may write"
    )


def new_log(name: str) -> Path:
    """A new, empty file ``logs/NAME-....log``; of those of earlier days, the latest few stay."""
    folder = cache_dir("logs")
    for old in sorted(folder.glob(f"{name}-*.log"))[: 1 - KEPT_LOGS]:
        with contextlib.suppress(OSError):
            if time.time() - old.stat().st_mtime > 86_400:
                old.unlink()
    handle, path = tempfile.mkstemp(dir=folder, prefix=f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-", suffix=".log")
    os.close(handle)
    return Path(path)


def _user_cache() -> Path:
    """Where the system keeps a user's caches."""
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "sharedstate-lite"
