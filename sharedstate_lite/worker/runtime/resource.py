"""What a runtime owns: one class a kind, each with one owner and no lock.

A thing gets a head and a table, and answers with a head and a table. It knows who
asks by a :class:`Caller`, and nothing of sockets, so that a test can ask it directly.
It runs on one asyncio loop: between two ``await`` nobody else is in it.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import pyarrow as pa

Head = dict[str, Any]
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
"""Kind of handle -> the class of the thing behind it."""


@dataclasses.dataclass(frozen=True)
class Caller:
    """Who asks: one connection of one process."""

    line: int
    pid: int


@dataclasses.dataclass(frozen=True)
class Context:
    """What a thing may use of the runtime that owns it."""

    application: str
    thing: str
    """Its name."""
    driver: Callable[[Head, pa.Table | None], Awaitable[Reply]]
    """Ask the driver."""
    borrow: Callable[[str], int | None]
    """The driver's own file of that name, if the driver is on this host. Blocks."""
    find: Callable[[str], Awaitable[Resource]]
    """Another thing of this runtime."""


class Resource(Protocol):
    """What every kind does."""

    async def answer(self, head: Head, table: pa.Table | None, caller: Caller) -> Reply:
        """One question. Raises Error for what it refuses."""

    def left(self, caller: Caller) -> None:
        """A caller's connection has ended."""

    def counts(self) -> dict[str, int]:
        """What it has done and holds, in numbers; see ``metrics``."""

    async def close(self) -> None:
        """Let go of everything."""


def make(kind: str, options: dict[str, Any], context: Context) -> Resource:
    """A thing of a kind."""
    module, _, name = KINDS[kind].partition(".")
    found: Callable[[Context, dict[str, Any]], Resource] = getattr(
        importlib.import_module(f".{module}", __package__), name
    )
    return found(context, options)
