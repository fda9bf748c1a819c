"""SPARK_HOME: PySpark's folder, or a folder of links to its parts that leaves out the zip of Python sources.

Spark puts PySpark's zip first on the module path of each Python process that it starts. Modules from a zip are compiled
again in each process, and all of them are in the package, too. If Spark starts the Python of this environment, which
can import the package, the zip is left out.
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
"""The subfolder with the zip, and the subfolder that executors create in SPARK_HOME for their own files."""


def package() -> Path:
    """Return PySpark's own folder. Raises Error if PySpark is not installed."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise Error("the package pyspark is not installed in this Python environment; run pip install pyspark==4.3.0")
    return Path(spec.origin).parent


def shared() -> Path:
    """Return the folder of links that all sessions on local[N] share, or PySpark's folder if links cannot be created.

    The path is always the same and contains no symbolic links, because Java compares it as text with the class path
    that is recorded in the archive of classes.
    """
    found = package()
    digest = hashlib.sha256(str(found).encode()).hexdigest()[:12]
    folder = cache_dir("home").resolve() / f"spark-{importlib.metadata.version('pyspark')}-{digest}"
    return linked(folder)


def linked(folder: Path) -> Path:
    """Fill ``folder`` with links to the parts of PySpark's folder, and return it.

    Returns PySpark's own folder if links cannot be created.
    """
    found = package()
    folder.mkdir(exist_ok=True)
    try:
        for part in found.iterdir():
            if part.name not in (_WORK_FOLDER, _ZIP_FOLDER):
                with contextlib.suppress(FileExistsError):
                    (folder / part.name).symlink_to(part)
    except OSError:
        return found
    return folder
