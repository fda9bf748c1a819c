"""Absolute paths that Spark has written into its logs and state metadata.

After the folder of a query is copied to another place, these paths must be corrected. Otherwise, Spark would keep
reading and writing in the old folder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rewrite_paths(folder: Path, before: Path, session: SparkSession) -> None:
    """Replace the path ``before`` with that of its copy, ``folder``, in all files where Spark stores absolute paths."""
    spark = folder / "spark"
    # Source logs contain URIs, and state metadata contains plain paths.
    for as_uri, files in ((True, spark.glob("sources/**/*")), (False, spark.glob("state/*/_metadata/**/*"))):
        old, new = (_written(path, as_uri, session) + b"/" for path in (before, folder))
        for file in files:
            if file.is_file() and not file.name.startswith("."):
                data = file.read_bytes()
                if old in data:
                    file.write_bytes(data.replace(old, new))
                    # The checksum file next to it belongs to the old content.
                    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def _written(path: Path, as_uri: bool, session: SparkSession) -> bytes:
    """Return ``path``, or its URI if ``as_uri`` is true, encoded as Spark writes it to JSON files."""
    jvm: Any = session._jvm
    text = jvm.org.apache.hadoop.fs.Path(str(path)).toUri().toString() if as_uri else str(path)
    return json.dumps(text, ensure_ascii=False)[1:-1].encode()
