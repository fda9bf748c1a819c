"""A PostgreSQL server for lessons and tests: started in about a second, without setup, and gone with its owner.

>>> import pyarrow as pa
>>> from sharedstate_lite import postgres
>>> with postgres.Server() as server:                                       # deletes its data at the end
...     rows = postgres.write(server, "product", pa.table({"id": [1, 2], "name": ["Apple", "Potato"]}))
...     with server.connect() as connection:                                # psycopg 3
...         connection.execute("SELECT name FROM product WHERE id = 2").fetchall()
[('Potato',)]

A server listens on 127.0.0.1 only, and asks every client for the random password in ``server.dsn``. It never runs as
root. If the environment variable SHAREDSTATE_LITE_POSTGRES_DSN is set, `Server` connects to that server instead.

Modules, from the bottom:

    programs      finds PostgreSQL's programs, and the user to run them as
    supervisor    a process that starts the server, stops it when its owner ends, and deletes its files
    start_errors  the error for a server that did not start
    server        Server: the owner's side
    rows          write(): an Arrow table or pandas frame into a table, by COPY

Reading with Spark is :mod:`sharedstate_lite.spark.partial.jdbc`. See docs/services.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..system.lazy import lazy_name
from .programs import VARIABLE

if TYPE_CHECKING:
    from .rows import write
    from .server import Server

_HOME = {"Server": "server", "write": "rows"}


def __getattr__(name: str) -> Any:
    # Lazy: the doctor imports this package on machines without psycopg.
    return lazy_name(__name__, _HOME, name)


__all__ = ["VARIABLE", "Server", "write"]
