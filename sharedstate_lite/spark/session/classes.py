"""An archive of Spark's classes, parsed and verified once, which later JVMs map into memory.

    python -m sharedstate_lite.spark.session.classes     makes it if there is none; so does the set-up of the tests

A session loads 18,000 classes before it has counted ten rows, and each JVM reads, parses and verifies them again: most
of the cost of a start (SHAREDSTATE_LITE_JAVA_OPTIONS=-Xlog:class+load:file=classes.log lists them). Java's class data
sharing stores the result in a file. A session that uses a little of everything makes the file; sessions on local[N]
use it. Java checks at each start whether the jars and options are still the same, and ignores the archive if not.

Java cannot make an archive if a folder on the class path contains files. Spark's configuration folder is on it, so that
folder stays empty here, and its files are elsewhere and passed by their paths. PySpark is imported only to make the
archive.

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
"""Archiving Java's own classes takes about 3 s."""
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for a JVM that ends before optimised code would pay off."""


def conf() -> Path:
    """The empty folder that is on the class path as Spark's configuration folder."""
    return cache_dir("classes", "conf").resolve()


def archive(java: Java) -> Path:
    """The path of the archive for this Java, whether it exists or not."""
    inputs = f"{java.home}\n{home.shared()}"
    digest = hashlib.sha256(inputs.encode()).hexdigest()[:12]
    return cache_dir("classes") / f"spark-{importlib.metadata.version('pyspark')}-java-{java.version}-{digest}.jsa"


def options(java: Java) -> str:
    """The JVM options that use the archive, or ignore it silently if it does not fit; empty if there is none."""
    path = archive(java)
    return f'-XX:SharedArchiveFile="{path}" -Xlog:cds=off' if path.is_file() else ""


def make(java: Java) -> Path:
    """Make the archive if there is none, in up to a minute; returns its path.

    No session may run meanwhile. The file appears complete or not at all. Raises Error if Java does not make one.
    """
    target = archive(java)
    if os.pathsep in str(target):
        raise Error(
            f"{target}: Java ends an archive's path at {os.pathsep!r}; set SHAREDSTATE_LITE_CACHE to another folder"
        )
    if target.is_file():
        return target
    with tempfile.TemporaryDirectory(dir=cache_dir("classes"), prefix=".make-") as scratch:
        part = Path(scratch) / "part.jsa"
        _exercise(f'{BRIEF} {_base(java)} -XX:ArchiveClassesAtExit="{part}"', Path(scratch))
        if not part.is_file():
            raise Error(f"Java {java.version} wrote no archive; see the latest log in {cache_dir('logs')}")
        os.replace(part, target)
    return target


def _base(java: Java) -> str:
    """The option for the archive of Java's own classes, which ours extends; empty if this Java comes with one."""
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
    """Run Java; None if it succeeded, otherwise the last line of its output."""
    try:
        done = subprocess.run(
            [program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BASE_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"it did not end within {BASE_SECONDS} s"
    lines = (done.stdout + done.stderr).strip().splitlines()
    return None if done.returncode == 0 else (lines or ["no output"])[-1]


def _exercise(java_options: str, scratch: Path) -> None:
    """Run a session that loads the usual classes: files, SQL, Arrow, Python workers, streams, RocksDB."""
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
    """Make the archive if there is none; the exit code is 0 if it exists afterwards."""
    java = find_java()
    path = archive(java)
    if not path.is_file():
        print("classes: archiving Spark's classes once, so that sessions start sooner", flush=True)
        began = time.monotonic()
        make(java)
        print(f"classes: done in {time.monotonic() - began:.0f} s", flush=True)
    print(f"classes: {path} ({path.stat().st_size / 1e6:.0f} MB)", flush=True)
    return 0


if __name__ == "__main__":
    command("classes", main)
