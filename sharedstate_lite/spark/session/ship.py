"""Zips the kit's modules for Python workers on machines where the kit is not installed.

Workers import the modules to which the driver's functions refer. On the driver's machine, they import the same files as
the driver. On other machines, they receive this archive, which takes precedence over any installed version, so the
driver and the workers run the same code.
"""

from __future__ import annotations

import zipfile
from pathlib import Path


def archive(folder: Path) -> Path:
    """Write ``sharedstate_lite.zip``, with sources and data files of the package, to ``folder``. Return its path."""
    target = folder / "sharedstate_lite.zip"
    root = Path(__file__).resolve().parents[3]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as out:
        for path in sorted((root / "sharedstate_lite").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                out.write(path, path.relative_to(root))
    return target
