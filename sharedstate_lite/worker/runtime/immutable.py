"""The state behind an Immutable: a sealed file in memory, which is passed to every process that requests it.

If the driver runs on this host, the runtime uses the driver's file. Otherwise, it copies the file once, over the lease.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pyarrow as pa

from . import host
from .resource import Caller, Context, Head, Reply

PIECE = 1 << 23
"""The number of bytes to fetch per request. Other resources can use the connection between two of these requests."""


class ImmutableState:
    """The file behind an Immutable, which is fetched when it is first requested."""

    def __init__(self, context: Context, options: dict[str, Any]) -> None:
        self._context, self._size = context, int(options["size"])
        self._file: asyncio.Task[int] | None = None
        self._mapped = self._fetched = 0

    async def answer(self, head: Head, table: pa.Table | None, caller: Caller) -> Reply:
        """Return the file and its size. The first request fetches the file."""
        if self._file is None or (self._file.done() and (self._file.cancelled() or self._file.exception())):
            self._file = asyncio.create_task(self._fetch())
        # The first caller may disconnect before the file has arrived, while other callers still wait for it.
        file = await asyncio.shield(self._file)
        self._mapped += 1
        return {"file": file, "size": self._size}, None

    def disconnected(self, caller: Caller) -> None:
        """Do nothing. The kernel keeps track of the processes that map the file."""

    def counts(self) -> dict[str, int]:
        """Return the counters of the file.

        ``requests`` is the number of times that the file was passed to a process, and ``loads`` the number of copies
        made on this host.
        """
        return {"requests": self._mapped, "loads": self._fetched, "bytes": self._size if self._file else 0}

    async def close(self) -> None:
        """Close the file. The kernel frees its memory when no process has it mapped."""
        if self._file is not None and self._file.done() and not self._file.cancelled() and not self._file.exception():
            os.close(self._file.result())
        elif self._file is not None:
            self._file.cancel()

    async def _fetch(self) -> int:
        borrowed = await asyncio.to_thread(self._context.borrow, self._context.resource)
        if borrowed is not None:
            return borrowed
        file = host.memory_file(self._context.application)
        try:
            for start in range(0, self._size, PIECE):
                _, piece = await self._context.driver({"op": "piece", "start": start, "count": PIECE}, None)
                assert piece is not None
                rest = memoryview(piece.column("bytes")[0].as_buffer())
                while rest:
                    rest = rest[os.write(file, rest) :]
        except BaseException:
            os.close(file)
            raise
        host.seal(file)
        self._fetched += 1
        return file
