"""Server: a PostgreSQL of one's own, or the one that the environment names.

The owner's side of :mod:`.keeper`, which does the work in a process of its own.
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
from . import keeper, programs
from .programs import VARIABLE
from .reasons import why

ANSWER_SECONDS = 2 * keeper.START_SECONDS
CONNECT_SECONDS = 10

SETTINGS: dict[str, str] = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "jit": "off",
    # Its files lie with the data, and go with them.
    "dynamic_shared_memory_type": "mmap",
    # No replicas, so bulk loads into new tables need not be logged.
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "4GB",
}
"""What every server is started with; ``settings`` goes before it."""

FLEETING: dict[str, str] = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""And one whose data go with it: nothing has to survive a power cut."""


class Server:
    """A running PostgreSQL server on 127.0.0.1; :meth:`close`, or the end of a ``with``, ends it.

    ``folder``    where its data stay, with the password beside them; without it they go when the server does
    ``port``      a port; without it a free one
    ``settings``  PostgreSQL's own settings, such as ``{"work_mem": "64MB"}``

    It is ended with the process that made it, however that ends. Where
    SHAREDSTATE_LITE_POSTGRES_DSN is set, nothing is started and ``dsn`` is what it says;
    the arguments then mean nothing. Raises :class:`~sharedstate_lite.errors.Error` with
    the reason, the way out and the log's last lines where there is no server.
    """

    dsn: str
    """Where it is and how to get in, password included, as every PostgreSQL client takes it."""

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._keeper: subprocess.Popen[bytes] | None = None
        self._closed, self._owner = False, os.getpid()
        self._log: Path | None = None
        named = os.environ.get(VARIABLE)
        if named:
            self.dsn, self.pid, self.version = named, None, self._found(named)
            return
        if port is not None and (isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536):
            raise Error(f"port={port!r}: it is a whole number from 1 to 65535, or None for a free one")
        place = Path(folder).expanduser().absolute() if folder is not None else None
        found = programs.find()
        user = programs.user(found, _owner_of(place))
        self.version, self._log = found.version, new_log("postgres")
        chosen = {**SETTINGS, **({} if place else FLEETING), **(settings or {})}
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
        """False once it has ended; for a server that the environment names, until :meth:`close`."""
        return not self._closed and (self._keeper is None or self._keeper.poll() is None)

    def connect(self, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
        """A new connection (psycopg 3); ``options`` are those of ``psycopg.connect``, such as ``autocommit=True``.

        Raises Error where the server has ended or lets nobody in.
        """
        if not self.alive:
            why_not = "" if self._closed or self._log is None else f" by itself (log: {self._log})"
            raise Error(f"{self!r}: it has ended{why_not}; start another Server")
        return connect(self.dsn, **options)

    def close(self) -> None:
        """End the server; nothing of it is left when this returns, but a folder that was named. Harmless repeated."""
        running, self._keeper, self._closed = self._keeper, None, True
        if running is None or self._owner != os.getpid():
            # A forked copy of the owner owns nothing.
            return
        _end(running)

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
        raise Error(f"{self!r}: a server cannot be sent elsewhere; send its dsn, and connect where it arrives")

    def _found(self, named: str) -> str:
        """The version of the server that the environment names."""
        with connect(named) as connection:
            return str(connection.execute("SHOW server_version").fetchall()[0][0]).split()[0]

    def _start(self, job: dict[str, Any], log: Path) -> dict[str, Any]:
        """Start the keeper, and return what it says of the server."""
        running = subprocess.Popen(
            # Neither the caller's folder nor its variables decide what the keeper imports.
            [sys.executable, "-I", "-S", keeper.__file__],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert running.stdin is not None and running.stdout is not None
        self._keeper = running
        try:
            running.stdin.write(json.dumps(job).encode() + b"\n")
            running.stdin.flush()
            said = running.stdout.readline()
        except BaseException:
            self.close()
            raise
        answer: dict[str, Any] = json.loads(said) if said else {"error": "its keeper ended at once"}
        if "error" in answer:
            _end(running)
            raise Error(why(str(answer["error"]), log))
        return answer


def connect(dsn: str, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
    """A connection to ``dsn``, or an Error that says where nobody answered, without the password."""
    if not isinstance(dsn, str):
        raise Error(f"{dsn!r} is no PostgreSQL; give a postgres.Server, or a DSN as text")
    try:
        patience = {} if "connect_timeout" in conninfo_to_dict(dsn) else {"connect_timeout": CONNECT_SECONDS}
        return psycopg.connect(make_conninfo(dsn, **patience), **options)
    except psycopg.Error as error:
        # Its last line may be a question, after the one that says what happened.
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        said = next((line for line in reversed(lines) if not line.endswith("?")), type(error).__name__)
        raise Error(
            f"PostgreSQL at {address(dsn)}: {said}; start it, or correct the DSN "
            f"(argument or {VARIABLE}), such as postgresql://user:password@host:5432/database"
        ) from None


def address(dsn: str) -> str:
    """A DSN without its secrets."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.Error:
        return "a DSN that cannot be read"
    return f"{parts.get('host', 'localhost')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"


def _end(running: subprocess.Popen[bytes]) -> None:
    """Tell a keeper to stop, and wait until it has."""
    assert running.stdin is not None and running.stdout is not None
    with contextlib.suppress(OSError):
        running.stdin.close()
    running.wait(timeout=keeper.FAST_SECONDS + 3 * keeper.QUIT_SECONDS)
    running.stdout.close()


def _owner_of(folder: Path | None) -> int | None:
    """Whose the data in a folder are, where there are any and they are not root's."""
    data = folder / "data" if folder else None
    if data is None or not data.is_dir():
        return None
    return data.stat().st_uid or None


_open: weakref.WeakSet[Server] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for server in list(_open):
        server.close()
