"""An immutable table on this host: one file in memory, sealed, handed to every process that asks.

Where the driver is on this host the file is the driver's own, and there is no copy.
Elsewhere it is fetched over the lease, once.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pyarrow as pa

from . import host
from .resource import Caller, Context, Head, Reply

PIECE = 1 << 23
"""Bytes that are fetched at a time, so that other questions get through between two of them."""


class ImmutableState:
    """The file, once somebody has asked for it."""

    def __init__(self, context: Context, options: dict[str, Any]) -> None:
        self._context, self._size = context, int(options["size"])
        self._file: asyncio.Task[int] | None = None
        self._mapped = self._fetched = 0

    async def answer(self, head: Head, table: pa.Table | None, caller: Caller) -> Reply:
        """The file."""
        if self._file is None or (self._file.done() and (self._file.cancelled() or self._file.exception())):
            self._file = asyncio.create_task(self._fetch())
        # Who asked first may be gone before it is there; the others still want it.
        file = await asyncio.shield(self._file)
        self._mapped += 1
        return {"file": file, "size": self._size}, None

    def left(self, caller: Caller) -> None:
        """Nothing is kept for a caller: the kernel counts who has the file mapped."""

    def counts(self) -> dict[str, int]:
        """queries: how often it was mapped; loads: how often it was copied to this host; bytes: its size."""
        return {"queries": self._mapped, "loads": self._fetched, "bytes": self._size if self._file else 0}

    async def close(self) -> None:
        """Let go of the file; it is gone when the last mapping is."""
        if self._file is not None and self._file.done() and not self._file.cancelled() and not self._file.exception():
            os.close(self._file.result())
        elif self._file is not None:
            self._file.cancel()

    async def _fetch(self) -> int:
        theirs = await asyncio.to_thread(self._context.borrow, self._context.thing)
        if theirs is not None:
            return theirs
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
