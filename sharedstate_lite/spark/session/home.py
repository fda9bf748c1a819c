"""Where Spark is: PySpark's package, and a look-alike of it for JVMs that start Pythons of this environment.

Spark puts the package's zip of Python sources first on the path of each Python that it starts. What comes from a
zip is compiled each time it is imported, and there is nothing in it that is not in the package. A look-alike is a
folder of links to the package's parts, without the zip where nobody needs it.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
from pathlib import Path

from ...errors import Error
from ...system.cache import cache_dir

_ZIPPED, _WRITTEN = "python", "work"
"""The package's folder with the zip, and the one that executors make in their home to write into."""


def package() -> Path:
    """PySpark's own folder. Raises Error where it is not installed."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise Error("the package pyspark is not installed in this Python environment; pip install pyspark==4.3.0")
    return Path(spec.origin).parent


def kept() -> Path:
    """The look-alike that sessions of one process share. Their jars keep their paths, as an archive of classes asks.

    The package itself where the system makes no links.
    """
    found = package()
    digest = hashlib.sha256(str(found).encode()).hexdigest()[:12]
    return alike(cache_dir("home", f"spark-{importlib.metadata.version('pyspark')}-{digest}"), zipped=False)


def alike(folder: Path, zipped: bool) -> Path:
    """The folder, made a look-alike with or without the zip; or the package itself where the system makes no links."""
    found = package()
    folder.mkdir(exist_ok=True)
    left_out = {_WRITTEN} if zipped else {_WRITTEN, _ZIPPED}
    try:
        for part in found.iterdir():
            if part.name not in left_out:
                with contextlib.suppress(FileExistsError):
                    (folder / part.name).symlink_to(part)
    except OSError:
        return found
    return folder
