"""The interface of everything that a runtime owns: one class for each kind of handle.

A resource receives a head and a table, and answers with a head and a table. It knows its caller by number and knows
nothing about sockets, so a test can call it directly. All resources run on one asyncio loop: between two ``await``
nothing else runs, so they need no lock.
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
}
"""Kind of handle -> module and class of the resource behind it."""


@dataclasses.dataclass(frozen=True)
class Caller:
    """One connection of one process."""

    connection: int
    pid: int


@dataclasses.dataclass(frozen=True)
class Context:
    """What a resource may use of the runtime that owns it."""

    application: str
    resource: str
    """The resource's own name, such as ``Cache 1``."""
    driver: Callable[[Head, pa.Table | None], Awaitable[Reply]]
    """Send a request to the driver."""
    borrow: Callable[[str], int | None]
    """Get the driver's file of that name; None if the driver runs on another host. Blocks."""
    find: Callable[[str], Awaitable[Resource]]
    """Get another resource of this runtime."""


class Resource(Protocol):
    """The methods of every kind."""

    async def answer(self, head: Head, table: pa.Table | None, caller: Caller) -> Reply:
        """Answer one request. Raises Error for a request that it refuses."""

    def disconnected(self, caller: Caller) -> None:
        """React to the end of a caller's connection."""

    def counts(self) -> dict[str, int]:
        """Counters for `metrics`, by column."""

    async def close(self) -> None:
        """Release everything that it holds."""


def make(kind: str, options: dict[str, Any], context: Context) -> Resource:
    """Create a resource of a kind. Imports its module now, so that psycopg is loaded only for a pool."""
    module, _, name = KINDS[kind].partition(".")
    found: Callable[[Context, dict[str, Any]], Resource] = getattr(
        importlib.import_module(f".{module}", __package__), name
    )
    return found(context, options)
