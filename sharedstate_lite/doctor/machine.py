"""Checks of Python, its packages, the user id, and the machine's ports, folders and memory.

This module uses only the standard library, so it can report missing packages.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from sharedstate_lite.doctor.finding import Finding, fail, note, ok, warn
from sharedstate_lite.system.cache import VARIABLE, cache_dir, checkout

REBUILD = "make clean, then make lab (or pip install --editable . in your own environment)"
OLDEST, NEWEST = (3, 11), (3, 14)
COMPILED = {name: name for name in ("numpy", "pandas", "pyarrow", "duckdb")} | {
    "pyzmq": "zmq",
    "protobuf": "google.protobuf",
}
"""Packages with compiled parts, which can fail to load even if they are installed -> the module to import."""
IMPORT_SECONDS = 60
GIB = 1024.0**3
JVM_ADDRESS_GIB = 6
"""The address space that a Spark JVM reserves, in GiB. The JVM uses only a part of it."""


def python() -> Finding:
    """Check that the locked packages support this Python."""
    kind, version = platform.python_implementation(), platform.python_version()
    if kind != "CPython" or not OLDEST <= sys.version_info[:2] <= NEWEST:
        return fail(
            f"{kind} {version}, {sys.executable}: the kit needs CPython 3.11 to 3.14",
            "make lab PYTHON=/path/to/python3.12",
        )
    return ok(f"{version}, {sys.executable}")


def packages() -> Finding:
    """Check that all required packages are installed, in a checkout in the locked versions, and that all load."""
    versions, required = pins()
    installed = {normalized(each.name): each.version for each in importlib.metadata.distributions()}
    if not required:
        return fail("the list of required packages was not found", REBUILD)
    if missing := sorted(required - installed.keys()):
        return fail(f"missing: {', '.join(missing)}", REBUILD)
    if failure := load_failure(module for name, module in COMPILED.items() if name in installed):
        return fail(failure, REBUILD)
    shared = sorted(versions.keys() & installed.keys())
    other = [
        f"{name} {installed[name]} (locked: {' or '.join(sorted(versions[name]))})"
        for name in shared
        if installed[name] not in versions[name]
    ]
    if other:
        return warn(f"not in the locked version: {', '.join(other)}", REBUILD)
    spark = f"pyspark {installed['pyspark']}" if "pyspark" in installed else "without pyspark"
    if not shared:
        return ok(f"{len(required)} required ones are installed ({spark})")
    return ok(f"{len(shared)} installed in the locked versions ({spark})")


def pins() -> tuple[dict[str, set[str]], set[str]]:
    """Return the locked versions of each package, and the names of the packages that this platform needs.

    In a checkout, they are read from setup/requirements.lock, otherwise from the metadata of the installed package,
    which locks nothing. A package with a marker (``; sys_platform == ...``) is not required, unless the marker excludes
    only Windows and this is another system.
    """
    home = checkout()
    lock = home / "setup" / "requirements.lock" if home else None
    locked = lock is not None and lock.is_file()
    lines = lock.read_text().splitlines() if lock and locked else importlib.metadata.requires("sharedstate-lite") or []
    versions: dict[str, set[str]] = {}
    required: set[str] = set()
    for line in lines:
        if found := re.match(r"([A-Za-z0-9._-]+)[^;=]*(?:==([^\s;\\]+))?[^;]*;?([^\\]*)", line):
            name, version, marker = normalized(found[1]), found[2], found[3].strip().replace('"', "'")
            if locked:
                versions.setdefault(name, set()).add(version)
            if not marker or (marker == "sys_platform != 'win32'" and sys.platform != "win32"):
                required.add(name)
    return versions, required


def normalized(name: str) -> str:
    """Return a package name as PyPI normalizes it: in lower case, and with single hyphens as separators."""
    return re.sub(r"[-_.]+", "-", name).lower()


def load_failure(modules: Iterable[str]) -> str:
    """Return an error message that names the first compiled package that does not load, or an empty string.

    The packages are imported in a separate process, because a broken one can crash its process.
    """
    code = "import importlib, sys\nfor name in sys.argv[1:]: print(name, flush=True), importlib.import_module(name)"
    done = subprocess.run(
        [sys.executable, "-c", code, *modules],
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
    """Check that no environment variable changes what Python imports or how Java starts."""
    names = ("PYTHONPATH", "PYTHONHOME", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS")
    if found := [name for name in names if os.environ.get(name)]:
        text = ", ".join(f"{name}={os.environ[name]}" for name in found)
        return note(f"set: {text}", f"unset {' '.join(found)} if packages or Spark behave strangely")
    if (locale := os.environ.get("LC_ALL")) in ("C", "POSIX") and not sys.prefix.isascii():
        return warn(f"LC_ALL={locale}: Java cannot read {sys.prefix}, so Spark does not start", "export LC_ALL=C.UTF-8")
    return ok("no variable changes what Python imports or how Java starts")


def user() -> Finding:
    """Check that the user id has an entry in /etc/passwd. In a container, any number can be the user id."""
    if os.name == "nt":
        return note("Windows: Spark, PostgreSQL and the grader need WSL", "run make lab in WSL for these parts")
    import pwd  # POSIX only

    number = os.geteuid()
    try:
        return ok(f"{pwd.getpwuid(number).pw_name}, user id {number}")
    except KeyError:
        home = os.environ.get("HOME") or tempfile.gettempdir()
        return fail(
            f"user id {number} has no entry in /etc/passwd: Spark and PostgreSQL do not start without one",
            f"add the line kit:x:{number}:{os.getegid()}::{home}:/bin/sh to /etc/passwd in the image, or load "
            'nss_wrapper (see "User ids without a name" in docs/services.md)',
        )


def ports() -> Finding:
    """Check that this user's processes can connect to each other on 127.0.0.1.

    Spark, Jupyter and PostgreSQL require this.
    """
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = server.getsockname()
            socket.create_connection(address, timeout=2).close()
    except OSError as error:
        return fail(
            f"cannot open a port on 127.0.0.1 and connect to it: {error.strerror or error}",
            "allow this user to open local ports (check the firewall, the sandbox and ulimit -n)",
        )
    return ok(f"127.0.0.1 works (tried port {address[1]})")


def folders() -> Finding:
    """Check that the kit can write its cache, temporary files and notebooks, and that there is enough disk space."""
    cache, home = cache_dir(), checkout()
    if bad := [text for folder in (cache, Path(tempfile.gettempdir())) if (text := write_failure(folder))]:
        return fail(
            f"cannot write to {', '.join(bad)}", f"make the folder writable, or set {VARIABLE} and TMPDIR to others"
        )
    free = shutil.disk_usage(cache).free / GIB
    text = f"{free:.1f} GiB free in the cache folder, {cache}"
    space = f"free some disk space, or set {VARIABLE} to a folder on another disk"
    if free < 0.5:
        return fail(f"{text}: not enough for checkpoints", space)
    if free < 2:
        return warn(f"{text}: enough only for the small examples", space)
    if home and (home / "notebooks").is_dir() and (failure := write_failure(home / "notebooks")):
        return warn(
            f"cannot write to {failure}: notebooks can be opened but not saved", "copy the checkout to your own folder"
        )
    return ok(text)


def write_failure(folder: Path) -> str:
    """Return the folder and the reason why files cannot be created in it, or an empty string if they can."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        return f"{folder} ({error.strerror or error})"
    return ""


def memory() -> Finding:
    """Check that there is enough memory for a notebook, Spark's JVM and two Python workers."""
    if os.name == "nt":
        return ok(f"{os.cpu_count() or 1} cores; the memory is not read on Windows")
    total, free = memory_gib()
    text = f"{free:.1f} of {total:.1f} GiB free, {os.cpu_count() or 1} cores"
    if free < 2:
        return warn(f"{text}: Spark and a notebook need 2 GiB", "close other programs, or skip the Spark parts")
    limit = address_limit_gib()
    if limit is not None and limit < JVM_ADDRESS_GIB:
        return warn(
            f"{text}; ulimit -v allows {limit:.1f} GiB of address space, but a JVM reserves {JVM_ADDRESS_GIB} GiB",
            "run ulimit -v unlimited, or skip the Spark parts",
        )
    return ok(text)


def memory_gib() -> tuple[float, float]:
    """Return the total and free memory in GiB: the machine's, or its control group's if that is less."""
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
    """Return the address space that ``ulimit -v`` allows each process, in GiB, or None if it is unlimited."""
    import resource  # POSIX only

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit / GIB
