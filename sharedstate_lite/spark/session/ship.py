"""The kit's modules as one archive, for Python workers on machines where the kit is not installed.

Workers import by name what the driver's functions refer to. On the driver's machine they find the same files. On other
machines they receive this archive, which takes precedence over any installed version, so driver and workers run the
same code.
"""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

PACKAGES = ("sharedstate_lite", "data")
"""Packages that functions on workers may import; ``data`` only if it is the one beside the kit."""


def archive(folder: Path) -> Path:
    """Write ``sharedstate_lite.zip``, with sources and the data files among them, into ``folder``; returns its path."""
    target = folder / "sharedstate_lite.zip"
    root = Path(__file__).resolve().parents[3]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as out:
        for package in PACKAGES:
            spec = importlib.util.find_spec(package)
            # Another package in the environment may be called data as well.
            if spec is None or spec.origin is None or Path(spec.origin).resolve().parents[1] != root:
                continue
            for path in sorted((root / package).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    out.write(path, path.relative_to(root))
    return target
