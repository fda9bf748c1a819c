"""Connections of this process to the runtime of its host; one question at a time on each.

A process that was forked opens its own: two that read from one connection would take
each other's answers.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time

from ...errors import Error
from ..runtime import host, launch, protocol
from ..runtime.address import Application

START_SECONDS = 60
"""How long a runtime may take to start, on a machine that is busy with other things."""
LOCK_SECONDS = 10
"""How long another process's start is waited for, before this one tries as well."""
STARTS = 5
"""A runtime that is gone so often before it has answered will not come up."""


class Lost(Error):
    """The runtime ended while it was at something that must not be done twice; nobody knows whether it was done."""


_owner = os.getpid()
_idle: dict[str, list[socket.socket]] = {}
_guard = threading.Lock()


def take(application: Application) -> socket.socket:
    """A connection that nobody uses; the runtime is started where there is none."""
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
            # A connection says nothing unasked: what can be read is its end. select() knows the first 1,024 files only.
            poll = select.poll()
            poll.register(sock, select.POLLIN)
            if not poll.poll(0):
                return sock
            sock.close()
    return _open(application)


def give(application: Application, sock: socket.socket) -> None:
    """Put a connection back whose answer has been read."""
    with _guard:
        _idle.setdefault(application.name, []).append(sock)


def drop(application: Application) -> None:
    """End the connections that nobody uses."""
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
        f"worker runtime: {why}; it needs the driver that made the handle, with its Spark session running; make the "
        "handle anew in a session that runs"
    )


def _connect(application: Application) -> socket.socket | None:
    """A new connection; None where nobody listens."""
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(host.address(application.runtime_name()))
        protocol.authenticate(sock, application.secret)
        protocol.request(sock, {"op": "hello", "pid": os.getpid()})
    except protocol.AuthenticationError:
        sock.close()
        raise Error(
            f"worker runtime: who listens under the name of application {application.name} does not belong to it; "
            "another user's process has taken it: start another session"
        ) from None
    except OSError:
        sock.close()
        return None
    return sock


def _forked() -> None:
    """In a fork the lock may be another thread's, which is not there."""
    global _guard
    _guard = threading.Lock()


with contextlib.suppress(AttributeError):
    os.register_at_fork(after_in_child=_forked)
