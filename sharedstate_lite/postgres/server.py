"""Server: a PostgreSQL server that ends with this process, or the one named by the environment.

This is the owner's side; :mod:`.supervisor` does the work in a process of its own.
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
    # Its files are in the data folder, and are deleted with it.
    "dynamic_shared_memory_type": "mmap",
    # Without replicas, bulk loads into new tables need no WAL.
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "4GB",
}
"""Settings of every server; the argument ``settings`` overrides them."""

TEMPORARY: dict[str, str] = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""Further settings of a server whose data are deleted: they need not survive a power cut."""


class Server:
    """A running PostgreSQL server on 127.0.0.1; ends with :meth:`close`, with ``with``, or with this process.

    ``folder``    keeps the data and the password; without it they are deleted at the end
    ``port``      default: a free port
    ``settings``  settings of PostgreSQL, such as ``{"work_mem": "64MB"}``

    If SHAREDSTATE_LITE_POSTGRES_DSN is set, no server is started, ``dsn`` is its value, and the arguments are ignored.
    Raises Error with the reason, what to do, and the last lines of the log if the server does not start.
    """

    dsn: str
    """The connection string, password included, for any PostgreSQL client."""

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
            raise Error(f"port={port!r}. Pass an integer from 1 to 65535, or None for a free port.")
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
        """Whether it runs. A server named by the environment counts as running until :meth:`close`."""
        return not self._closed and (self._supervisor is None or self._supervisor.poll() is None)

    def connect(self, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
        """A new connection (psycopg 3), with the ``options`` of ``psycopg.connect``, such as ``autocommit=True``.

        Raises Error if the server has ended or refuses the connection.
        """
        if not self.alive:
            why = "" if self._closed or self._log is None else f" by itself (log: {self._log})"
            raise Error(f"{self!r}: it has ended{why}. Start another Server.")
        return connect(self.dsn, **options)

    def close(self) -> None:
        """Stop the server and delete everything except a named folder. Harmless when repeated."""
        running, self._supervisor, self._closed = self._supervisor, None, True
        if running is None or self._owner != os.getpid():
            # A forked copy of the owner must not stop it.
            return
        _stop(running)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        where = conninfo_to_dict(self.dsn)
        state = "" if self.alive else ", ended"
        address = f"{where.get('host', 'localhost')}:{where.get('port', 5432)}"
        return f"Server(PostgreSQL {self.version} at {address}{state})"

    def __reduce__(self) -> NoReturn:
        raise Error(f"{self!r}: a server cannot be pickled. Send its dsn, and connect there.")

    def _version_of(self, named: str) -> str:
        """The version of a running server."""
        with connect(named) as connection:
            return str(connection.execute("SHOW server_version").fetchall()[0][0]).split()[0]

    def _start(self, job: dict[str, Any], log: Path) -> dict[str, Any]:
        """Start the supervisor, and return its report."""
        running = subprocess.Popen(
            # Isolated: the caller's folder and variables must not change what it imports.
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
        answer: dict[str, Any] = json.loads(said) if said else {"error": "its supervisor ended at once"}
        if "error" in answer:
            _stop(running)
            raise Error(start_error(str(answer["error"]), log))
        return answer


def connect(dsn: str, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
    """A connection to ``dsn``. Raises Error with the address, but without the password."""
    if not isinstance(dsn, str):
        raise Error(f"got {dsn!r}. Pass a postgres.Server, or a DSN as text.")
    try:
        patience = {} if "connect_timeout" in conninfo_to_dict(dsn) else {"connect_timeout": CONNECT_SECONDS}
        return psycopg.connect(make_conninfo(dsn, **patience), **options)
    except psycopg.Error as error:
        # The last line may be a hint in form of a question; take the line before it.
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        said = next((line for line in reversed(lines) if not line.endswith("?")), type(error).__name__)
        raise Error(
            f"PostgreSQL at {address(dsn)}: {said}. Start it, or correct the DSN "
            f"(argument or {VARIABLE}), such as postgresql://user:password@host:5432/database."
        ) from None


def address(dsn: str) -> str:
    """Host, port and database of a DSN."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.Error:
        return "a DSN that cannot be read"
    return f"{parts.get('host', 'localhost')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"


def _stop(running: subprocess.Popen[bytes]) -> None:
    """Tell a supervisor to stop, and wait until it has."""
    assert running.stdin is not None and running.stdout is not None
    with contextlib.suppress(OSError):
        running.stdin.close()
    running.wait(timeout=supervisor.FAST_SECONDS + 3 * supervisor.QUIT_SECONDS)
    running.stdout.close()


def _owner_of(folder: Path | None) -> int | None:
    """The uid of the data in a folder; None if there are none, or they are root's."""
    data = folder / "data" if folder else None
    if data is None or not data.is_dir():
        return None
    return data.stat().st_uid or None


_open: weakref.WeakSet[Server] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for server in list(_open):
        server.close()
