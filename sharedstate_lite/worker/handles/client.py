"""A process's connections to the runtime on its host, and the requests that it sends over them.

If the runtime exits during a request, the request is retried if that is safe; otherwise, it raises `Lost`. Each
connection carries one request at a time, and idle connections are reused. A forked process opens its own connections,
because two processes that read from the same socket would receive each other's answers.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from typing import Self

import pyarrow as pa

from ...errors import Error
from ..runtime import host, launch, protocol
from ..runtime.address import Application
from ..runtime.resource import Head

START_SECONDS = 60
"""The maximum time to wait for a runtime to start, which can take long on a busy machine."""
LOCK_SECONDS = 10
"""How long to wait while another process starts the runtime, before this process starts one."""
STARTS = 5
"""The maximum number of attempts to start a runtime that exits before it answers."""
TRIES = 5
"""The maximum number of attempts to send a request if the runtime exits during each of them."""

Answered = tuple[Head, "pa.Table | None", "int | None"]
"""The head and the table of an answer, and the descriptor of the file that was sent with it."""


class Lost(Error):
    """Raised if the runtime exits during a request that cannot be repeated. The request may have been executed."""


_owner = os.getpid()
_idle: dict[str, list[socket.socket]] = {}
_guard = threading.Lock()


class Connection:
    """A context manager for a series of requests that must be sent over the same connection.

    If the connection is closed, the runtime releases the keys of a `Cache` that it has assigned to this connection.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self._sock: socket.socket | None = None

    def request(self, head: Head, table: pa.Table | None = None, *, retry: bool = True) -> Answered:
        """Send a request to the runtime and return the answer.

        With ``retry``, the request is sent again if the runtime exits before it answers. Raises Error if the runtime
        answers with an error. Raises Lost if the runtime exits and ``retry`` is False, or if it exits `TRIES` times.
        """
        for _ in range(TRIES if retry else 1):
            sock = self._sock = self._sock or acquire(self._application)
            try:
                answered = protocol.request(sock, head, table)
            except OSError:
                self._close()
                close_idle(self._application)
                continue
            except BaseException:
                # An interrupted request leaves its answer on the connection, so the connection must be closed.
                self._close()
                raise
            if "error" in answered[0]:
                raise Error(answered[0]["error"])
            return answered
        what = f"{head.get('resource')}: the runtime on this host exited during {head['op']!r}"
        if retry:
            raise Lost(f"{what}, {TRIES} times in a row. The request itself may be the cause.")
        raise Lost(f"{what}, and it is unknown whether the request was executed. Check before you repeat it.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        sock, self._sock = self._sock, None
        if sock is not None:
            release(self._application, sock)

    def _close(self) -> None:
        sock, self._sock = self._sock, None
        if sock is not None:
            sock.close()


def request(application: Application, head: Head, table: pa.Table | None = None, *, retry: bool = True) -> Answered:
    """Send one request over an idle or new connection; see :meth:`Connection.request`."""
    with Connection(application) as connection:
        return connection.request(head, table, retry=retry)


def acquire(application: Application) -> socket.socket:
    """Return an idle connection, or open a new one. Starts the runtime if it is not running on this host."""
    global _owner
    with _guard:
        if _owner != os.getpid():
            for sockets in _idle.values():
                for sock in sockets:
                    sock.close()
            _idle.clear()
            _owner = os.getpid()
        idle = _idle.setdefault(application.name, [])
        while idle:
            sock = idle.pop()
            # An idle connection becomes readable only when it is closed. Use poll() to check for this, because select()
            # is limited to descriptors below 1,024.
            poll = select.poll()
            poll.register(sock, select.POLLIN)
            if not poll.poll(0):
                return sock
            sock.close()
    return _open(application)


def release(application: Application, sock: socket.socket) -> None:
    """Make a connection available for the next request. Its last answer must have been read."""
    with _guard:
        _idle.setdefault(application.name, []).append(sock)


def close_idle(application: Application) -> None:
    """Close the idle connections to the runtime of an application."""
    with _guard:
        for sock in _idle.pop(application.name, []):
            sock.close()


def _open(application: Application) -> socket.socket:
    deadline = time.monotonic() + START_SECONDS
    said, starts = "", 0
    while time.monotonic() < deadline and starts < STARTS:
        sock = _connect(application)
        if sock is not None:
            return sock
        with host.start_lock(LOCK_SECONDS):
            sock = _connect(application)
            if sock is not None:
                return sock
            said = launch.start(application)
            starts += 1
        if said not in ("ready", "taken"):
            break
    why = "it exits immediately after it starts" if said in ("", "ready", "taken") else said
    raise Error(
        f"worker runtime: {why}. A handle works only while its driver and its Spark session are running. "
        "Create the handle again in a session that is running."
    )


def _connect(application: Application) -> socket.socket | None:
    """Return a new connection, or None if there is no runtime to connect to."""
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(host.address(application.runtime_name()))
        protocol.authenticate(sock, application.secret)
        protocol.request(sock, {"op": "hello", "pid": os.getpid()})
    except protocol.AuthenticationError:
        sock.close()
        raise Error(
            f"worker runtime: a process that does not belong to application {application.name} is listening at its "
            "address. The process may belong to another user. Start another session."
        ) from None
    except OSError:
        sock.close()
        return None
    return sock


def _after_fork() -> None:
    # Another thread may have held the lock during the fork. That thread does not exist in the child.
    global _guard
    _guard = threading.Lock()


with contextlib.suppress(AttributeError):
    os.register_at_fork(after_in_child=_after_fork)
