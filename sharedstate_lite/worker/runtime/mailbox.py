"""The state behind a Mailbox or an Exchange: it forwards each request of a task to the driver."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from .resource import Caller, Context, Head, Reply


class MailboxState:
    """Forwards over the lease, many requests at a time, and counts them."""

    def __init__(self, context: Context, options: dict[str, Any]) -> None:
        self._driver = context.driver
        self._requests = self._rows = self._bytes = 0

    async def answer(self, head: Head, table: pa.Table | None, caller: Caller) -> Reply:
        """Return the driver's answer."""
        assert table is not None
        self._requests += 1
        self._rows += table.num_rows
        self._bytes += table.nbytes
        return await self._driver({"op": "ask"}, table)

    def disconnected(self, caller: Caller) -> None:
        """The channel has cancelled the caller's requests."""

    def counts(self) -> dict[str, int]:
        """queries: requests; rows and bytes: of their tables."""
        return {"queries": self._requests, "rows": self._rows, "bytes": self._bytes}

    async def close(self) -> None:
        """Holds nothing to release."""
