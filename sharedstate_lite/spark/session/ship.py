"""Zips the kit's modules for Python workers on machines where the kit is not installed.

Workers import the modules to which the driver's functions refer. On the driver's machine, they import the same files as
the driver. On other machines, they receive this archive, which takes precedence over any installed version, so the
driver and the workers run the same code.
"""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

PACKAGES = ("sharedstate_lite", "data")
"""The packages that functions on workers can import. ``data`` is included only if it is the one next to the kit."""


def archive(folder: Path) -> Path:
    """Write ``sharedstate_lite.zip``, with sources and data files of the packages, to ``folder``. Return its path."""
    target = folder / "sharedstate_lite.zip"
    root = Path(__file__).resolve().parents[3]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as out:
        for package in PACKAGES:
            spec = importlib.util.find_spec(package)
            # The environment can contain another package that is also called data.
            if spec is None or spec.origin is None or Path(spec.origin).resolve().parents[1] != root:
                continue
            for path in sorted((root / package).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    out.write(path, path.relative_to(root))
    return target
