"""A process's connections to the runtime of its host, and requests over them: retried if harmless, otherwise `Lost`.

Each connection carries one request at a time. Idle connections are kept for the next request. A forked process opens
connections of its own: two processes that read from one socket would take each other's answers.
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
"""How long a runtime may take to start on a busy machine."""
LOCK_SECONDS = 10
"""How long to wait for another process that starts the runtime, before starting one here."""
STARTS = 5
"""How many runtimes may end before they answer, until the request fails."""
TRIES = 5
"""How many runtimes may die during one request, until the request is taken to be the cause."""

Answered = tuple[Head, "pa.Table | None", "int | None"]
"""Head, table, and the descriptor of the file that came with them."""


class Lost(Error):
    """The runtime ended during a request that must not be repeated; it is not known whether the request was done."""


_owner = os.getpid()
_idle: dict[str, list[socket.socket]] = {}
_guard = threading.Lock()


class Connection:
    """One connection, reserved for a series of requests; a context manager.

    The runtime releases what a connection has reserved (the keys that a `Cache` is to load) when it ends.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self._sock: socket.socket | None = None

    def request(self, head: Head, table: pa.Table | None = None, *, retry: bool = True) -> Answered:
        """Send a request to the runtime and return the answer.

        ``retry``: the request may be sent again if the runtime ends before it answers. Raises Error if the runtime
        refuses, and Lost if it ended and the request may not be repeated, or has been repeated too often.
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
                # An interrupted request leaves its answer on the connection.
                self._close()
                raise
            if "error" in answered[0]:
                raise Error(answered[0]["error"])
            return answered
        what = f"{head.get('resource')}: the runtime of this host ended during {head['op']!r}"
        if retry:
            raise Lost(f"{what}, {TRIES} times in a row. The request itself may be the cause.")
        raise Lost(f"{what}, and it is not known whether that was done. Check before you repeat it.")

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
    """Send one request; see :meth:`Connection.request`."""
    with Connection(application) as connection:
        return connection.request(head, table, retry=retry)


def acquire(application: Application) -> socket.socket:
    """An idle connection, or a new one. Starts the runtime if this host has none."""
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
            # An idle connection becomes readable only when it ends. select() is limited to descriptors below 1,024.
            poll = select.poll()
            poll.register(sock, select.POLLIN)
            if not poll.poll(0):
                return sock
            sock.close()
    return _open(application)


def release(application: Application, sock: socket.socket) -> None:
    """Keep a connection whose answer has been read for the next request."""
    with _guard:
        _idle.setdefault(application.name, []).append(sock)


def close_idle(application: Application) -> None:
    """Close the idle connections to an application."""
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
    why = "it ends at once" if said in ("", "ready", "taken") else said
    raise Error(
        f"worker runtime: {why}. A handle works only while the driver that created it and its Spark session run. "
        "Create the handle again in a session that is running."
    )


def _connect(application: Application) -> socket.socket | None:
    """A new connection; None if no runtime listens."""
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(host.address(application.runtime_name()))
        protocol.authenticate(sock, application.secret)
        protocol.request(sock, {"op": "hello", "pid": os.getpid()})
    except protocol.AuthenticationError:
        sock.close()
        raise Error(
            f"worker runtime: a process that does not belong to application {application.name} listens under its name. "
            "Another user may have taken the name. Start another session."
        ) from None
    except OSError:
        sock.close()
        return None
    return sock


def _after_fork() -> None:
    # Another thread may have held the lock at the time of the fork; that thread does not exist in the child.
    global _guard
    _guard = threading.Lock()


with contextlib.suppress(AttributeError):
    os.register_at_fork(after_in_child=_after_fork)
