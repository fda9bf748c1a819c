"""Server: a PostgreSQL server that stops with this process, or a running server whose DSN is in the environment.

This module runs in the process that owns the server. :mod:`.supervisor` starts and stops it in a separate process.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ..errors import Error
from ..system.cache import new_log
from . import programs, supervisor
from .programs import VARIABLE
from .start_errors import start_error

ANSWER_SECONDS = 2 * supervisor.START_SECONDS
CONNECT_SECONDS = 10

SETTINGS: dict[str, str] = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "jit": "off",
    # Keep shared memory in files in the data folder, so that it is deleted with the folder.
    "dynamic_shared_memory_type": "mmap",
    # Without replicas, bulk loads into new tables do not need WAL.
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "4GB",
}
"""The settings of every server. The argument ``settings`` overrides them."""

TEMPORARY: dict[str, str] = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""Additional settings of a server without a folder, whose data does not have to survive a power failure."""


class Server:
    """A running PostgreSQL server on 127.0.0.1.

    It stops when :meth:`close` is called, when its ``with`` block ends, or when this process exits.

    ``folder``    the folder for the data and the password; without it, both are deleted when the server stops
    ``port``      the port to listen on; by default a free port
    ``settings``  settings of PostgreSQL, such as ``{"work_mem": "64MB"}``

    If SHAREDSTATE_LITE_POSTGRES_DSN is set, a server is not started. Instead, ``dsn`` is the variable's value, and the
    arguments are ignored. Raises Error if the server does not start, with the reason, a remedy, and the end of the log.
    """

    dsn: str
    """The connection string for any PostgreSQL client, including the password."""

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._closed, self._owner = False, os.getpid()
        self._log: Path | None = None
        named = os.environ.get(VARIABLE)
        if named:
            self.dsn, self.pid, self.version = named, None, self._version_of(named)
            return
        if port is not None and (isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536):
            raise Error(f"port={port!r} is not a port. Pass an integer from 1 to 65535, or None to use a free port.")
        place = Path(folder).expanduser().absolute() if folder is not None else None
        found = programs.find()
        user = programs.user(found, _owner_of(place))
        self.version, self._log = found.version, new_log("postgres")
        chosen = {**SETTINGS, **({} if place else TEMPORARY), **(settings or {})}
        job = {
            "bin": str(found.bin),
            "copy": user is not None and not user.reads,
            "user": [user.uid, user.gid] if user else None,
            "folder": str(place) if place else None,
            "port": port or 0,
            "settings": chosen,
            "log": str(self._log),
            "owner": os.getpid(),
        }
        answer = self._start(job, self._log)
        self.pid = int(answer["pid"])
        self.dsn = f"postgresql://postgres:{answer['password']}@127.0.0.1:{answer['port']}/postgres"
        _open.add(self)

    @property
    def alive(self) -> bool:
        """Whether the server is running. For a server from the environment, this is True until `close` is called."""
        return not self._closed and (self._supervisor is None or self._supervisor.poll() is None)

    def connect(self, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
        """Return a new connection of psycopg 3. ``options`` are those of ``psycopg.connect``, such as ``autocommit``.

        Raises Error if the server has stopped or refuses the connection.
        """
        if not self.alive:
            why = "" if self._closed or self._log is None else f" unexpectedly (log: {self._log})"
            raise Error(f"{self!r}: the server has stopped{why}. Start another Server.")
        return connect(self.dsn, **options)

    def close(self) -> None:
        """Stop the server and delete its files, except in ``folder``. Calling it again has no effect."""
        running, self._supervisor, self._closed = self._supervisor, None, True
        if running is None or self._owner != os.getpid():
            # A forked copy of the owner must not stop the server.
            return
        _stop(running)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        where = conninfo_to_dict(self.dsn)
        state = "" if self.alive else ", stopped"
        address = f"{where.get('host', 'localhost')}:{where.get('port', 5432)}"
        return f"Server(PostgreSQL {self.version} at {address}{state})"

    def __reduce__(self) -> NoReturn:
        raise Error(f"{self!r}: a server cannot be pickled. Send its dsn to the other process, and connect there.")

    def _version_of(self, named: str) -> str:
        """Return the version of the running server with the DSN ``named``."""
        with connect(named) as connection:
            return str(connection.execute("SHOW server_version").fetchall()[0][0]).split()[0]

    def _start(self, job: dict[str, Any], log: Path) -> dict[str, Any]:
        """Start the supervisor, and return its report."""
        running = subprocess.Popen(
            # Run Python in isolated mode, so that the caller's folder and environment do not change its imports.
            [sys.executable, "-I", "-S", supervisor.__file__],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert running.stdin is not None and running.stdout is not None
        self._supervisor = running
        try:
            running.stdin.write(json.dumps(job).encode() + b"\n")
            running.stdin.flush()
            said = running.stdout.readline()
        except BaseException:
            self.close()
            raise
        answer: dict[str, Any] = json.loads(said) if said else {"error": "its supervisor exited immediately"}
        if "error" in answer:
            _stop(running)
            raise Error(start_error(str(answer["error"]), log))
        return answer


def connect(dsn: str, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
    """Return a new connection to ``dsn``. If it fails, raise Error with the address but without the password."""
    if not isinstance(dsn, str):
        raise Error(f"got {dsn!r}. Pass a postgres.Server, or a DSN as a string.")
    try:
        patience = {} if "connect_timeout" in conninfo_to_dict(dsn) else {"connect_timeout": CONNECT_SECONDS}
        return psycopg.connect(make_conninfo(dsn, **patience), **options)
    except psycopg.Error as error:
        # The last lines can be a hint in the form of a question. If so, use the last line before the hint.
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        said = next((line for line in reversed(lines) if not line.endswith("?")), type(error).__name__)
        raise Error(
            f"PostgreSQL at {address(dsn)}: {said}. Start the server, or correct the DSN in the argument or in "
            f"{VARIABLE}. A DSN looks like postgresql://user:password@host:5432/database."
        ) from None


def address(dsn: str) -> str:
    """Return the host, port and database of a DSN, in the form host:port/database."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.Error:
        return "a DSN that cannot be parsed"
    return f"{parts.get('host', 'localhost')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"


def _stop(running: subprocess.Popen[bytes]) -> None:
    """Make a supervisor stop its server by closing its standard input, and wait until it has exited."""
    assert running.stdin is not None and running.stdout is not None
    with contextlib.suppress(OSError):
        running.stdin.close()
    running.wait(timeout=supervisor.FAST_SECONDS + 3 * supervisor.QUIT_SECONDS)
    running.stdout.close()


def _owner_of(folder: Path | None) -> int | None:
    """Return the uid that owns the data in a folder, or None if there is no data or root owns it."""
    data = folder / "data" if folder else None
    if data is None or not data.is_dir():
        return None
    return data.stat().st_uid or None


_open: weakref.WeakSet[Server] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for server in list(_open):
        server.close()
