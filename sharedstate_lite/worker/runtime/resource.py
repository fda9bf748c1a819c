"""The interface of the resources that a runtime owns. Each kind of handle has a resource class.

A resource receives a head and a table, and answers with a head and a table. It identifies its caller by a number and
does not use sockets, so a test can call it directly. All resources run on one asyncio loop. Other code runs only while
a resource awaits something, so resources do not need locks.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import pyarrow as pa

Head = dict[str, Any]
"""The JSON part of a message."""
Reply = tuple[Head, "pa.Table | None"]
KINDS = {
    "AsyncRuntime": "async_runtime.AsyncRuntimeState",
    "Cache": "cache.CacheState",
    "ConcurrentSet": "concurrent_set.ConcurrentSetState",
    "ConnectionPool": "connection_pool.ConnectionPoolState",
    "Exchange": "mailbox.MailboxState",
    "Immutable": "immutable.ImmutableState",
    "Mailbox": "mailbox.MailboxState",
    "Pool": "pool.PoolState",
}
"""Maps each kind of handle to the module and class of its resource."""


@dataclasses.dataclass(frozen=True)
class Caller:
    """Identifies the sender of a request: the number of its connection, and its process id."""

    connection: int
    pid: int


@dataclasses.dataclass(frozen=True)
class Context:
    """The functions of its runtime that a resource can call, and the names of the application and the resource."""

    application: str
    resource: str
    """The resource's own name, such as ``Cache 1``."""
    driver: Callable[[Head, pa.Table | None], Awaitable[Reply]]
    """Sends a request to the driver and returns the answer."""
    borrow: Callable[[str], int | None]
    """Returns a descriptor of the driver's file for a resource, or None if the driver is on another host. Blocks."""
    find: Callable[[str], Awaitable[Resource]]
    """Returns the resource of this runtime that has the given name."""


class Resource(Protocol):
    """The methods that every resource has."""

    async def answer(self, head: Head, table: pa.Table | None, caller: Caller) -> Reply:
        """Answer one request. Raises Error if the request is invalid or cannot be answered."""

    def disconnected(self, caller: Caller) -> None:
        """Release everything that a caller has reserved. Called when its connection is closed."""

    def counts(self) -> dict[str, int]:
        """Return the counters that `metrics` shows, by column name. `metrics` defines the columns."""

    async def close(self) -> None:
        """Release the memory, files and connections of the resource."""


def make(kind: str, options: dict[str, Any], context: Context) -> Resource:
    """Create a resource of the given kind.

    Its module is imported here, so that psycopg is loaded only if a ConnectionPool is created.
    """
    module, _, name = KINDS[kind].partition(".")
    found: Callable[[Context, dict[str, Any]], Resource] = getattr(
        importlib.import_module(f".{module}", __package__), name
    )
    return found(context, options)
