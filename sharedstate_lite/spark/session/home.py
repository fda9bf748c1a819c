"""SPARK_HOME: PySpark's package, or a folder of links to its parts without the zip of Python sources.

Spark puts PySpark's zip first on the path of each Python that it starts. Modules from a zip are compiled again in each
process, and the zip contains nothing that the package does not. Where Spark starts Pythons of this environment, the zip
is left out.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
from pathlib import Path

from ...errors import Error
from ...system.cache import cache_dir

_ZIP_FOLDER, _WORK_FOLDER = "python", "work"
"""The package's folder that contains the zip, and the one that executors create in SPARK_HOME to write into."""


def package() -> Path:
    """PySpark's own folder. Raises Error if it is not installed."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise Error("the package pyspark is not installed in this Python environment; pip install pyspark==4.3.0")
    return Path(spec.origin).parent


def shared() -> Path:
    """The folder of links that all one-process sessions use, or the package itself if the system allows no links.

    Its path is stable and has no links, because Java compares the class path of an archive as text.
    """
    found = package()
    digest = hashlib.sha256(str(found).encode()).hexdigest()[:12]
    folder = cache_dir("home").resolve() / f"spark-{importlib.metadata.version('pyspark')}-{digest}"
    return linked(folder, zipped=False)


def linked(folder: Path, zipped: bool) -> Path:
    """The folder, filled with links to the package's parts, with the zip or without; the package if links fail."""
    found = package()
    folder.mkdir(exist_ok=True)
    left_out = {_WORK_FOLDER} if zipped else {_WORK_FOLDER, _ZIP_FOLDER}
    try:
        for part in found.iterdir():
            if part.name not in left_out:
                with contextlib.suppress(FileExistsError):
                    (folder / part.name).symlink_to(part)
    except OSError:
        return found
    return folder
