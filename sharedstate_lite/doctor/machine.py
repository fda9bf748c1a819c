"""What every part of the kit needs of a machine: Python, packages, ports, folders, memory, disk."""

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
from contextlib import ExitStack
from pathlib import Path

from sharedstate_lite.doctor.finding import Finding, fail, note, ok, warn
from sharedstate_lite.system.cache import VARIABLE, cache_dir, checkout

REBUILD = "make clean, then make lab (or pip install --editable . in an environment of your own)"
OLDEST, NEWEST = (3, 11), (3, 14)
NATIVE = ("numpy", "pandas", "pyarrow", "duckdb", "zmq")
"""Packages with compiled parts, which may be installed and still not load."""
GIB = 1024.0**3
ADDRESSES = 6
"""GiB that a JVM of Spark's reserves, with its heap of one and what it maps; most of it is never used."""


def python() -> Finding:
    """A CPython that the locked packages are for."""
    version, kind = platform.python_version(), platform.python_implementation()
    text = f"{version}, {sys.executable}"
    if kind != "CPython" or not OLDEST <= sys.version_info[:2] <= NEWEST or sys.maxsize < 2**32:
        return fail(f"{kind} {text}: 64-bit CPython 3.11 to 3.14 is needed", "make lab PYTHON=/path/to/python3.12")
    return ok(text)


def plain(name: str) -> str:
    """A package's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> tuple[dict[str, set[str]], set[str]]:
    """The versions locked for each package, and the packages that are needed whatever the platform.

    From setup/requirements.txt in a checkout, else from what the installed package
    declares. A package under a marker may rightly be absent.
    """
    home = checkout()
    lock = home / "setup" / "requirements.txt" if home else None
    if lock is not None and lock.is_file():
        lines = lock.read_text().splitlines()
    else:
        lines = importlib.metadata.requires("sharedstate-lite") or []
    versions: dict[str, set[str]] = {}
    always: set[str] = set()
    for text in lines:
        found = re.match(r"([A-Za-z0-9._-]+)==([^\s;\\]+)\s*(;?)", text)
        if found:
            versions.setdefault(plain(found[1]), set()).add(found[2])
            if not found[3]:
                always.add(plain(found[1]))
    return versions, always


def packages() -> Finding:
    """Every locked package, in the locked version."""
    versions, always = pins()
    here = {plain(each.name): each.version for each in importlib.metadata.distributions()}
    absent = sorted(always - here.keys())
    other = sorted(f"{name} {here[name]} (locked {' or '.join(sorted(locked))})"
                   for name, locked in versions.items() if name in here and here[name] not in locked)  # fmt: skip
    if not versions:
        return fail("no list of locked packages was found", REBUILD)
    if absent:
        return fail(f"missing: {', '.join(absent)}", REBUILD)
    if other:
        return warn(f"of another version: {', '.join(other)}", REBUILD)
    return ok(f"{len(versions.keys() & here.keys())}, all as locked (pyspark {here['pyspark']})")


def imports() -> Finding:
    """The packages with compiled parts load, tried in a process of its own: a bad one may crash its process."""
    code = "import importlib, sys\nfor name in sys.argv[1:]: print(name, flush=True), importlib.import_module(name)"
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, *NATIVE], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=6
        )
    except subprocess.TimeoutExpired:
        return note("did not load within 6 s (a cold or busy disk?)", "run the doctor again")
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
        return fail(f"{(done.stdout.split() or ['Python'])[-1]} does not load: {said}", REBUILD)
    return ok(f"{', '.join(NATIVE)} load")


def settings() -> Finding:
    """Variables that put other packages before the kit's, or that every Java obeys and announces."""
    suspects = ("PYTHONPATH", "PYTHONHOME", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS")
    found = [f"{name}={os.environ[name]}" for name in suspects if os.environ.get(name)]
    if found:
        names = " ".join(text.partition("=")[0] for text in found)
        return note(f"set: {', '.join(found)}", f"unset {names}, if packages or Spark behave strangely")
    return ok("no variable bends Python or Java")


def ports(count: int = 12) -> Finding:
    """Free ports on 127.0.0.1, as many as a lab with Spark opens at once, and that one of them can be reached."""
    with ExitStack() as held:
        try:
            servers = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
            with socket.create_connection(servers[0].getsockname(), timeout=2):
                pass
        except OSError as error:
            return fail(
                f"127.0.0.1 cannot be listened on and reached: {error.strerror or error}",
                "let this user open local ports (firewall, sandbox, ulimit -n)",
            )
        numbers = [server.getsockname()[1] for server in servers]
    return ok(f"{count} free on 127.0.0.1, such as {numbers[0]}")


def writable(folder: Path) -> str:
    """Empty if a file can be made in the folder, else why not."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        return f"{folder} ({error.strerror or error})"
    return ""


def folders() -> Finding:
    """The caches folder, the temporary folder and, in a checkout, the notebooks can be written."""
    cache, home = cache_dir(), checkout()
    bad = [text for text in (writable(cache), writable(Path(tempfile.gettempdir()))) if text]
    if bad:
        return fail(f"cannot write {', '.join(bad)}", f"make them writable, or set {VARIABLE} and TMPDIR to others")
    if home and (home / "notebooks").is_dir() and (text := writable(home / "notebooks")):
        return warn(f"cannot write {text}: notebooks open, but are not saved", "copy the checkout to a folder of yours")
    return ok(f"caches in {cache}")


def room() -> tuple[float, float]:
    """Memory in GiB that this process may use in all, and that is free now; the lesser of machine and control group."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    free = total
    info = Path("/proc/meminfo")
    if info.is_file():
        available = re.search(r"^MemAvailable:\s+(\d+) kB$", info.read_text(), re.MULTILINE)
        free = int(available[1]) * 1024 / GIB if available else total
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.is_file() and used.is_file() and limit.read_text().strip() != "max":
        allowed = int(limit.read_text()) / GIB
        total, free = min(total, allowed), min(free, allowed - int(used.read_text()) / GIB)
    return total, free


def limit() -> float | None:
    """GiB of addresses that each process may have, None where they are not limited (``ulimit -v``)."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if allowed == resource.RLIM_INFINITY else allowed / GIB


def memory() -> Finding:
    """Room for a notebook beside Spark's driver and two Python workers."""
    total, free = room()
    text = f"{free:.1f} of {total:.1f} GiB free, {os.cpu_count() or 1} cores"
    if free < 2:
        return warn(f"{text}: Spark and a notebook want 2 GiB", "close other programs, or leave the Spark parts out")
    allowed = limit()
    if allowed is not None and allowed < ADDRESSES:
        said = f"{text}, but a process may have {allowed:.1f} GiB of addresses: a JVM wants some {ADDRESSES}"
        return warn(said, "lift the limit (ulimit -v unlimited), or leave the Spark parts out")
    return ok(text)


def disk() -> Finding:
    """Room where the caches are: Spark's scratch, checkpoints, generated data."""
    cache = cache_dir()
    free = shutil.disk_usage(cache).free / GIB
    mend = f"make room, or set {VARIABLE} to a folder on another disk"
    if free < 0.5:
        return fail(f"{free:.1f} GiB free at {cache}: checkpoints will not fit", mend)
    if free < 2:
        return warn(f"{free:.1f} GiB free at {cache}: enough for the small examples only", mend)
    return ok(f"{free:.1f} GiB free at {cache}")
