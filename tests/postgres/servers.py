"""What a PostgreSQL server leaves, or has while it runs."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil
import pytest
from psycopg.conninfo import conninfo_to_dict

from sharedstate_lite import postgres
from sharedstate_lite.system.cache import cache_dir

T = TypeVar("T")

OURS = pytest.mark.skipif(
    bool(os.environ.get(postgres.VARIABLE)), reason=f"{postgres.VARIABLE} names a server, and these start their own"
)


def traces() -> list[Path]:
    """What servers of this test have left, or have while they run: folders and logs."""
    return [*Path(os.environ["TMPDIR"]).iterdir(), *cache_dir("logs").iterdir()]


def family(server: postgres.Server) -> list[psutil.Process]:
    """The supervisor, and the server's processes."""
    assert server.pid is not None
    running = psutil.Process(server.pid)
    return [running.parent(), running, *running.children(recursive=True)]  # type: ignore[list-item]


def each_of(processes: list[psutil.Process], ask: Callable[[psutil.Process], T]) -> list[T]:
    """What each process answers; PostgreSQL starts some for a moment, and one that has ended has none."""
    out = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            out.append(ask(process))
    return out


def port_of(dsn: str) -> int:
    """The port in a DSN."""
    return int(str(conninfo_to_dict(dsn)["port"]))


def listens(port: int) -> bool:
    """Whether anybody takes connections there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
