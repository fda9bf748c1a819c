"""A PostgreSQL server for lessons and tests. It starts in about a second without setup, and stops with its owner.

>>> import pyarrow as pa
>>> from sharedstate_lite import postgres
>>> with postgres.Server() as server:                                       # deletes its data at the end
...     rows = postgres.write(server, "product", pa.table({"id": [1, 2], "name": ["Apple", "Potato"]}))
...     with server.connect() as connection:                                # a connection of psycopg 3
...         connection.execute("SELECT name FROM product WHERE id = 2").fetchall()
[('Potato',)]

The owner is the process that creates the `Server`. The server listens only on 127.0.0.1, and requires the random
password in ``server.dsn`` for every connection. It never runs as root. If the environment variable
SHAREDSTATE_LITE_POSTGRES_DSN is set, `Server` connects to the server with that DSN instead of starting one.

Modules, from the bottom:

    programs      finds PostgreSQL's programs, and the user that should run them
    supervisor    a process that starts the server, stops it when its owner exits, and deletes its files
    start_errors  the error message for a server that did not start
    server        Server: the class that the owner uses
    rows          write(): copies an Arrow table or a pandas frame into a table with COPY

To write a Spark DataFrame, use :mod:`sharedstate_lite.spark.postgres`. See docs/services.md.
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
    # Import lazily, because the doctor imports this package on machines without psycopg.
    return lazy_name(__name__, _HOME, name)


__all__ = ["VARIABLE", "Server", "write"]
