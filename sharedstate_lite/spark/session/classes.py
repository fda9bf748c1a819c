"""An archive of Spark's classes, which are parsed and verified once and then mapped into memory by later JVMs.

    python -m sharedstate_lite.spark.session.classes     creates the archive if it does not exist

The setup of the tests runs this command, too.

A session loads 18,000 classes before it can count ten rows. Every JVM reads, parses and verifies them again, and this
is most of the cost of a start (SHAREDSTATE_LITE_JAVA_OPTIONS=-Xlog:class+load:file=classes.log lists them). Java's
class data sharing stores the result in a file. The kit creates that file with a session that uses most parts of Spark,
and sessions on local[N] use it. At each start, Java checks whether the jars and options are still the same, and ignores
the archive if they are not.

Java cannot create an archive if a folder on the class path contains files. Spark's configuration folder is on the class
path, so the kit leaves it empty, and keeps the configuration files in another folder. PySpark is imported only when the
archive is created.

Source: JEP 350, Dynamic CDS Archives.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import subprocess
import tempfile
import time
from pathlib import Path

from ...errors import Error
from ...system.cache import cache_dir
from ...system.command import command
from ...system.example import SCHEMA, SQL
from . import home
from .java import Java, find_java

AGAIN = "python -m sharedstate_lite.spark.session.classes"
BASE_SECONDS = 120
"""The time limit for archiving Java's own classes, which takes about 3 s."""
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for a JVM that runs too briefly for optimised code to pay off."""


def conf() -> Path:
    """Return the empty folder that is on the class path as Spark's configuration folder."""
    return cache_dir("classes", "conf").resolve()


def archive(java: Java) -> Path:
    """Return the path of the archive for this Java. The file may not exist yet."""
    inputs = f"{java.home}\n{home.shared()}"
    digest = hashlib.sha256(inputs.encode()).hexdigest()[:12]
    return cache_dir("classes") / f"spark-{importlib.metadata.version('pyspark')}-java-{java.version}-{digest}.jsa"


def options(java: Java) -> str:
    """Return the JVM options for using the archive, or an empty string if there is none.

    With these options, Java silently ignores an archive that does not fit.
    """
    path = archive(java)
    return f'-XX:SharedArchiveFile="{path}" -Xlog:cds=off' if path.is_file() else ""


def make(java: Java) -> Path:
    """Create the archive if it does not exist, which takes up to a minute, and return its path.

    This process must not have a running session. The file is renamed into place when it is complete. Raises Error if
    Java does not create an archive.
    """
    target = archive(java)
    if target.is_file():
        return target
    with tempfile.TemporaryDirectory(dir=cache_dir("classes"), prefix=".make-") as scratch:
        part = Path(scratch) / "part.jsa"
        _exercise(f'{BRIEF} {_base(java)} -XX:ArchiveClassesAtExit="{part}"', Path(scratch))
        if not part.is_file():
            raise Error(f"Java {java.version} did not write an archive; see the latest log in {cache_dir('logs')}")
        os.replace(part, target)
    return target


def _base(java: Java) -> str:
    """Return the JVM option for an archive of Java's own classes, and create the archive if it does not exist.

    The archive of Spark's classes extends this one. Returns an empty string if Java includes such an archive.
    """
    program = str(java.home / "bin" / "java")
    if _java(program, "-Xshare:on", "-version") is None:
        return ""
    base = archive(java).with_suffix(".base.jsa")
    if not base.is_file():
        handle, part = tempfile.mkstemp(dir=base.parent, prefix=".base-")
        os.close(handle)
        try:
            refusal = _java(program, "-Xshare:dump", f"-XX:SharedArchiveFile={part}")
            if refusal is not None:
                raise Error(f"Java {java.version} cannot archive its own classes ({refusal})")
            os.replace(part, base)
        finally:
            Path(part).unlink(missing_ok=True)
    return f'-XX:SharedArchiveFile="{base}"'


def _java(program: str, *arguments: str) -> str | None:
    """Run Java. Return None if it succeeded, and otherwise the last line of its output."""
    try:
        done = subprocess.run(
            [program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BASE_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"it did not finish within {BASE_SECONDS} s"
    lines = (done.stdout + done.stderr).strip().splitlines()
    return None if done.returncode == 0 else (lines or ["no output"])[-1]


def _exercise(java_options: str, scratch: Path) -> None:
    """Run a session that loads the usual classes, for files, SQL, Arrow, Python workers, streams and RocksDB."""
    import sharedstate_lite as ss

    view = ss.Catalog(**SCHEMA).view(SQL)
    with ss.spark.session("local[2]", conf={"spark.driver.extraJavaOptions": java_options}) as spark:
        frame = spark.createDataFrame([("Apple", "Alice", 10), ("Apple", "Bob", None)], SCHEMA["visit"])
        frame.write.parquet(str(scratch / "visit"))
        visits = spark.read.parquet(str(scratch / "visit"))
        visits.createOrReplaceTempView("visit")
        spark.sql("SELECT product, MAX(length), COUNT(DISTINCT user) FROM visit GROUP BY product").toPandas()
        visits.join(frame.select("product"), "product").mapInArrow(lambda batches: batches, "product STRING").collect()
        visits.rdd.map(tuple).collect()
        with ss.spark.engine("shared", [view], spark, checkpoint=scratch / "checkpoint", bins=2) as running:
            running.step({"info": [(("Apple", "Fruit"), 1)], "visit": [(("Apple", "Eve", 40), 1)]})
            running.step({"visit": [(("Apple", "Eve", 40), -1)]})
            running.read("result", "Fruit")
            running.state()


def main() -> int:
    """Create the archive if it does not exist, print its path, and return 0. Raises Error if it cannot be created."""
    java = find_java()
    path = archive(java)
    if not path.is_file():
        print("classes: archiving Spark's classes once, so that sessions start faster", flush=True)
        began = time.monotonic()
        make(java)
        print(f"classes: done in {time.monotonic() - began:.0f} s", flush=True)
    print(f"classes: {path} ({path.stat().st_size / 1e6:.0f} MB)", flush=True)
    return 0


if __name__ == "__main__":
    command("classes", main)
