"""Spark's classes, parsed and verified once for all sessions: an archive that every later JVM maps into memory.

    python -m sharedstate_lite.spark.session.classes     makes it where there is none; so does the set-up of the tests

Most of what a session's start costs is classes, 18,000 of them before it has counted ten rows
(SHAREDSTATE_LITE_JAVA_OPTIONS=-Xlog:class+load:file=classes.log lists them): read from jars, parsed and
verified anew by each JVM. Java's class data sharing keeps what came of that in a file
(JEP 350). It is made by a session that does a little of everything, and used by JVMs in
which all of Spark runs (local[N]); Java itself looks whether jars and options are still
those that it was made with, and goes without it where they are not. Nothing needs it.

Java refuses to archive where a folder on its class path holds files. Spark's folder for
configuration is one, so it is an empty one here, and files that lie elsewhere are named.
Imports pyspark only where the archive is made.
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
from . import home
from .java import Java, find_java

AGAIN = "python -m sharedstate_lite.spark.session.classes"
VISIT = "product STRING, user STRING, length INT"
BASE_SECONDS = 120
"""Java's own classes take three."""
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a JVM that runs nothing often enough to be compiled well."""


def conf() -> Path:
    """The empty folder that stands on the class path for Spark's configuration."""
    return cache_dir("classes", "conf")


def archive(java: Java) -> Path:
    """Where the archive for this Java is, or would be."""
    what = f"{java.home}\n{home.kept()}"
    digest = hashlib.sha256(what.encode()).hexdigest()[:12]
    return cache_dir("classes") / f"spark-{importlib.metadata.version('pyspark')}-java-{java.version}-{digest}.jsa"


def options(java: Java) -> str:
    """What a JVM is started with to use the archive, or to do without it in silence; empty where there is none."""
    path = archive(java)
    return f'-XX:SharedArchiveFile="{path}" -Xlog:cds=off' if path.is_file() else ""


def make(java: Java) -> Path:
    """Make the archive, in a minute at most, where there is none. Returns its path.

    No session may run meanwhile. Raises Error where Java does not make one; a file is
    whole or not there.
    """
    target = archive(java)
    if os.pathsep in str(target):
        raise Error(f"{target}: Java takes {os.pathsep!r} in an archive's path for the end of it; move the caches")
    if target.is_file():
        return target
    with tempfile.TemporaryDirectory(dir=cache_dir("classes"), prefix=".make-") as scratch:
        part = Path(scratch) / "part.jsa"
        _exercise(f'{BRIEF} {_base(java)} -XX:ArchiveClassesAtExit="{part}"', Path(scratch))
        if not part.is_file():
            raise Error(f"Java {java.version} wrote no archive; why is in the latest log in {cache_dir('logs')}")
        os.replace(part, target)
    return target


def _base(java: Java) -> str:
    """What has Java share its own classes, on which the archive builds: empty where it brings them, else an option."""
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
                raise Error(f"Java {java.version} does not archive its own classes ({refusal})")
            os.replace(part, base)
        finally:
            Path(part).unlink(missing_ok=True)
    return f'-XX:SharedArchiveFile="{base}"'


def _java(program: str, *arguments: str) -> str | None:
    """Run Java; None where it did as told, else its last words."""
    try:
        done = subprocess.run(
            [program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BASE_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {BASE_SECONDS} s"
    lines = (done.stdout + done.stderr).strip().splitlines()
    return None if done.returncode == 0 else (lines or ["no message"])[-1]


def _exercise(java_options: str, scratch: Path) -> None:
    """A session that has the classes loaded which sessions use: files, SQL, Arrow, Python workers, streams, RocksDB."""
    import sharedstate_lite as ss

    catalog = ss.Catalog(info="product STRING, category STRING", visit=VISIT)
    view = catalog.view(
        "CREATE VIEW result AS SELECT category, MAX(length) AS max_length "
        "FROM info JOIN visit USING (product) GROUP BY category"
    )
    with ss.spark.session("local[2]", conf={"spark.driver.extraJavaOptions": java_options}) as spark:
        frame = spark.createDataFrame([("Apple", "Alice", 10), ("Apple", "Bob", None)], VISIT)
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
    """Make the archive and say so; 0 where it is there afterwards."""
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
