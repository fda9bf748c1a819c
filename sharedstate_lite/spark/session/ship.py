"""The kit's own modules as one archive, for workers on machines where they are not installed.

Workers import by name what the driver's functions refer to. On one machine they find
it where the driver does; elsewhere they are sent this, which goes before whatever
version is installed there: driver and workers run the same code.
"""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

PACKAGES = ("sharedstate_lite", "data")
"""What may be on a worker's side of a function; ``data`` only where it lies beside the kit."""


def archive(folder: Path) -> Path:
    """Write ``sharedstate_lite.zip`` into ``folder``: sources and the small files beside them. Returns its path."""
    target = folder / "sharedstate_lite.zip"
    root = Path(__file__).resolve().parents[3]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as out:
        for package in PACKAGES:
            spec = importlib.util.find_spec(package)
            # Any environment may have a package called data; ours lies beside this one.
            if spec is None or spec.origin is None or Path(spec.origin).resolve().parents[1] != root:
                continue
            for path in sorted((root / package).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    out.write(path, path.relative_to(root))
    return target
