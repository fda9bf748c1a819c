"""A real PostgreSQL server for as long as it is wanted, with nothing to set up by hand.

    from sharedstate_lite import postgres
    with postgres.Server() as server:               # about a second; its data goes when it goes
        postgres.write(server, "product", table)    # an Arrow table or a pandas frame, by COPY
        with server.connect() as connection:        # psycopg 3
            connection.execute("SELECT count(*) FROM product").fetchone()
        server.dsn                                  # for everything else that speaks to PostgreSQL

    programs.py   where its programs are, and as whom they may run
    keeper.py     a process that starts the server, ends it with its owner, and clears away
    server.py     Server: the owner's side; the DSN from the environment instead
    reasons.py    why a server did not start, in one message
    rows.py       write(): columns into a table, by COPY

It refuses to listen anywhere but on 127.0.0.1, to let anybody in without the password
that each server draws, to run as root, and to touch a table that is there unless told
to. Reading with Spark is :mod:`sharedstate_lite.spark.partial.jdbc`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .programs import VARIABLE

if TYPE_CHECKING:
    from .rows import write
    from .server import Server

_ROOMS = {"Server": "server", "write": "rows"}


def __getattr__(name: str) -> Any:
    # The doctor asks for the programs where the packages may be missing.
    if name in _ROOMS:
        return getattr(importlib.import_module(f".{_ROOMS[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["VARIABLE", "Server", "write"]
