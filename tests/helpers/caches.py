"""A cache folder of a test's own, in which nothing is compiled a second time."""

from __future__ import annotations

from pathlib import Path

from sharedstate_lite.system.cache import cache_dir


def own_cache(folder: Path, *more: str) -> Path:
    """Create a folder, if it is not there, in which the compiled loops, and ``more``, are those of the real cache."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("loops", *more):
        if not (folder / name).exists():
            (folder / name).symlink_to(cache_dir(name))
    return folder
