"""Checks of Python, its packages, and the machine: ports, folders, memory.

Uses the standard library alone, so that a missing package can be reported.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from sharedstate_lite.doctor.finding import Finding, fail, note, ok, warn
from sharedstate_lite.system.cache import VARIABLE, cache_dir, checkout

REBUILD = "make clean, then make lab (or pip install --editable . in an environment of your own)"
OLDEST, NEWEST = (3, 11), (3, 14)
COMPILED = ("numpy", "pandas", "pyarrow", "duckdb", "zmq", "google.protobuf")
"""Packages with compiled parts: one can be installed and still fail to load."""
IMPORT_SECONDS = 60
GIB = 1024.0**3
JVM_ADDRESS_GIB = 6
"""GiB of address space that a Spark JVM reserves; it touches only a part of it."""


def python() -> Finding:
    """Is this a Python that the locked packages support?"""
    kind, version = platform.python_implementation(), platform.python_version()
    if kind != "CPython" or not OLDEST <= sys.version_info[:2] <= NEWEST:
        return fail(
            f"{kind} {version}, {sys.executable}: the kit needs CPython 3.11 to 3.14",
            "make lab PYTHON=/path/to/python3.12",
        )
    return ok(f"{version}, {sys.executable}")


def packages() -> Finding:
    """Are all locked packages installed, in the locked versions, and do the compiled ones load?"""
    versions, required = pins()
    installed = {normalized(each.name): each.version for each in importlib.metadata.distributions()}
    if not versions:
        return fail("no list of locked packages was found", REBUILD)
    if missing := sorted(required - installed.keys()):
        return fail(f"missing: {', '.join(missing)}", REBUILD)
    if failure := load_failure():
        return fail(failure, REBUILD)
    shared = sorted(versions.keys() & installed.keys())
    other = [
        f"{name} {installed[name]} (locked: {' or '.join(sorted(versions[name]))})"
        for name in shared
        if installed[name] not in versions[name]
    ]
    if other:
        return warn(f"not the locked version: {', '.join(other)}", REBUILD)
    return ok(f"{len(shared)} in their locked versions (pyspark {installed['pyspark']})")


def pins() -> tuple[dict[str, set[str]], set[str]]:
    """The locked versions of each package, and the packages that every platform needs.

    Read from setup/requirements.txt in a checkout, otherwise from the metadata of the installed package. A package
    with a marker (``; sys_platform == ...``) may be absent.
    """
    home = checkout()
    lock = home / "setup" / "requirements.txt" if home else None
    if lock is not None and lock.is_file():
        lines = lock.read_text().splitlines()
    else:
        lines = importlib.metadata.requires("sharedstate-lite") or []
    versions: dict[str, set[str]] = {}
    required: set[str] = set()
    for line in lines:
        if found := re.match(r"([A-Za-z0-9._-]+)==([^\s;\\]+)\s*(;?)", line):
            name = normalized(found[1])
            versions.setdefault(name, set()).add(found[2])
            if not found[3]:
                required.add(name)
    return versions, required


def normalized(name: str) -> str:
    """A package name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def load_failure() -> str:
    """Why a compiled package does not load, or the empty string. A separate process, because a load can crash it."""
    code = "import importlib, sys\nfor name in sys.argv[1:]: print(name, flush=True), importlib.import_module(name)"
    done = subprocess.run(
        [sys.executable, "-c", code, *COMPILED],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=IMPORT_SECONDS,
    )
    if not done.returncode:
        return ""
    last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
    return f"{(done.stdout.split() or ['Python'])[-1]} does not load: {last}"


def variables() -> Finding:
    """Do environment variables change what Python imports or how Java starts?"""
    names = ("PYTHONPATH", "PYTHONHOME", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS")
    if found := [name for name in names if os.environ.get(name)]:
        text = ", ".join(f"{name}={os.environ[name]}" for name in found)
        return note(f"set: {text}", f"unset {' '.join(found)} if packages or Spark behave strangely")
    return ok("no variable changes what Python imports or how Java starts")


def ports() -> Finding:
    """Can processes of this user reach one another on 127.0.0.1, as Spark, Jupyter and PostgreSQL need?"""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = server.getsockname()
            socket.create_connection(address, timeout=2).close()
    except OSError as error:
        return fail(
            f"a port on 127.0.0.1 cannot be opened and reached: {error.strerror or error}",
            "allow this user local ports (firewall, sandbox, ulimit -n)",
        )
    return ok(f"127.0.0.1 works (tried port {address[1]})")


def folders() -> Finding:
    """Can the kit write its cache, temporary files and notebooks, and is there disk space?"""
    cache, home = cache_dir(), checkout()
    if bad := [text for folder in (cache, Path(tempfile.gettempdir())) if (text := write_failure(folder))]:
        return fail(f"cannot write {', '.join(bad)}", f"make them writable, or set {VARIABLE} and TMPDIR to others")
    free = shutil.disk_usage(cache).free / GIB
    text = f"{free:.1f} GiB free for the cache, {cache}"
    space = f"free some disk space, or set {VARIABLE} to a folder on another disk"
    if free < 0.5:
        return fail(f"{text}: too little for checkpoints", space)
    if free < 2:
        return warn(f"{text}: enough for the small examples only", space)
    if home and (home / "notebooks").is_dir() and (failure := write_failure(home / "notebooks")):
        return warn(
            f"cannot write {failure}: notebooks open but cannot be saved", "copy the checkout to your own folder"
        )
    return ok(text)


def write_failure(folder: Path) -> str:
    """The folder and why no file can be created in it, or the empty string."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        return f"{folder} ({error.strerror or error})"
    return ""


def memory() -> Finding:
    """Is there memory for a notebook, Spark's JVM and two Python workers?"""
    total, free = memory_gib()
    text = f"{free:.1f} of {total:.1f} GiB free, {os.cpu_count() or 1} cores"
    if free < 2:
        return warn(f"{text}: Spark and a notebook need 2 GiB", "close other programs, or skip the Spark parts")
    limit = address_limit_gib()
    if limit is not None and limit < JVM_ADDRESS_GIB:
        return warn(
            f"{text}, but ulimit -v allows {limit:.1f} GiB of addresses: a JVM reserves about {JVM_ADDRESS_GIB}",
            "ulimit -v unlimited, or skip the Spark parts",
        )
    return ok(text)


def memory_gib() -> tuple[float, float]:
    """Total and free memory in GiB: of the machine, or of the control group if that has less."""
    total = free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    info = Path("/proc/meminfo")
    if info.is_file() and (available := re.search(r"^MemAvailable:\s+(\d+) kB$", info.read_text(), re.MULTILINE)):
        free = int(available[1]) * 1024 / GIB
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.is_file() and used.is_file() and limit.read_text().strip() != "max":
        allowed = int(limit.read_text()) / GIB
        total, free = min(total, allowed), min(free, allowed - int(used.read_text()) / GIB)
    return total, free


def address_limit_gib() -> float | None:
    """The address space that ``ulimit -v`` allows a process, in GiB, or None without a limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit / GIB
