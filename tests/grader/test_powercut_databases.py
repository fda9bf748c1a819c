"""SQLite and PostgreSQL on the power-cut disk lose nothing with their syncs, and lose commits without them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time

import psycopg
import pytest
from boxes import Mounted, mounted

from grader.powercut import Disk
from grader.sandbox import search_path

__all__ = ["mounted"]

_SQLITE = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.executescript(f"PRAGMA journal_mode = {sys.argv[2]}; PRAGMA synchronous = {sys.argv[3]}")
db.execute("CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY, text)")
for n in range(int(sys.argv[4]), 10**9):
    db.execute("INSERT INTO t VALUES (?, ?)", (n, "x" * 300))
    print(n, flush=True)
"""


def _until(process: subprocess.Popen[str], lines: int) -> int:
    """Read some acknowledgements, kill the process, and return the last one."""
    assert process.stdout is not None
    for _ in range(lines):
        process.stdout.readline()
    process.kill()
    last = [line for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    process.wait()
    process.stdout.close()
    return int(last[-1]) if last else lines - 1


@pytest.mark.parametrize(
    ("journal", "synchronous", "survives"),
    [("DELETE", "FULL", True), ("WAL", "FULL", True), ("DELETE", "OFF", False), ("WAL", "NORMAL", False)],
)
def test_sqlite_keeps_what_it_was_told_to_sync(
    mounted: Mounted, journal: str, synchronous: str, survives: bool
) -> None:
    """After a kill and a power cut, every acknowledged row is there with syncs; some are missing without."""
    one = mounted()
    try:
        path = one.place / "db"
        words = [sys.executable, "-c", _SQLITE, str(path), journal, synchronous, "0"]
        last = _until(subprocess.Popen(words, stdout=subprocess.PIPE, text=True), 40)
        one.cut()
        one.mount()
        look = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchall())"
        ask = "SELECT max(n), count(*) FROM t"
        done = subprocess.run([sys.executable, "-c", look, str(path), ask], capture_output=True, text=True)
        whole = done.stdout.strip()
        n, count = eval(whole)[0] if whole else (None, 0)
        assert (n is not None and n >= last and count == n + 1) == survives, (last, whole, done.stderr)
    finally:
        one.close()


def _postgres(one: Disk, fsync: str, ends: contextlib.ExitStack) -> tuple[subprocess.Popen[bytes], str]:
    """Start a server of an ordinary user in the mounted folder. Returns its process and connection string."""
    as_user = {"user": 65_534, "group": 65_534, "extra_groups": []} if os.geteuid() == 0 else {}
    data = one.place / "pg"
    environment = {"PATH": search_path(), "HOME": "/tmp", "LC_ALL": "C"}
    if not data.exists():
        data.mkdir(mode=0o700)
        if as_user:
            os.chown(data, 65_534, 65_534)
        words = ["initdb", "-D", str(data), "-U", "shop", "--auth", "trust", "-E", "UTF8", "--no-locale"]
        subprocess.run(words, check=True, capture_output=True, env=environment, cwd="/", **as_user)  # type: ignore[call-overload]
    (data / "postmaster.pid").unlink(missing_ok=True)
    sockets = ends.enter_context(tempfile.TemporaryDirectory(prefix="powercut-"))
    os.chmod(sockets, 0o777)
    words = ["postgres", "-D", str(data), "-h", "", "-k", sockets, "-c", f"fsync={fsync}"]
    process: subprocess.Popen[bytes] = subprocess.Popen(  # type: ignore[call-overload]
        words, env=environment, cwd="/", start_new_session=True, stderr=subprocess.DEVNULL, **as_user
    )
    ends.callback(_end, process)
    return process, f"host={sockets} user=shop dbname=postgres"


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _connect(process: subprocess.Popen[bytes], dsn: str) -> psycopg.Connection | None:
    """A connection to the server once it accepts one; None if it has ended."""
    until = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < until:
        try:
            return psycopg.connect(dsn, autocommit=True)
        except psycopg.OperationalError:
            time.sleep(0.05)  # a server that recovers announces nothing: it can only be asked again
    return None


@pytest.mark.parametrize(("fsync", "survives"), [("on", True), ("off", False)])
def test_postgresql_keeps_what_it_was_told_to_sync(mounted: Mounted, fsync: str, survives: bool) -> None:
    """The server of labs/checkout: with fsync every acknowledged commit survives; without it some are lost."""
    one = mounted()
    with contextlib.ExitStack() as ends:
        ends.callback(one.close)
        process, dsn = _postgres(one, fsync, ends)
        db = _connect(process, dsn)
        assert db is not None
        with contextlib.closing(db):
            db.execute("CREATE TABLE t (n int)")
            for n in range(200):
                db.execute("INSERT INTO t VALUES (%s)", (n,))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        one.cut()
        one.mount()
        process, dsn = _postgres(one, fsync, ends)
        count = 0
        if (db := _connect(process, dsn)) is not None:
            # Without the table none is there.
            with contextlib.closing(db), contextlib.suppress(psycopg.Error):
                (count,) = db.execute("SELECT count(*) FROM t").fetchone()  # type: ignore[misc]
        assert (count == 200) == survives
