"""The state behind a Mailbox or an Exchange, which forwards the tasks' requests to the driver."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from .resource import Caller, Context, Head, Reply


class MailboxState:
    """Forwards requests over the lease, many at the same time, and counts them."""

    def __init__(self, context: Context, options: dict[str, Any]) -> None:
        self._driver = context.driver
        self._requests = self._rows = self._bytes = 0

    async def answer(self, head: Head, table: pa.Table | None, caller: Caller) -> Reply:
        """Forward the request to the driver, and return the driver's answer."""
        assert table is not None
        self._requests += 1
        self._rows += table.num_rows
        self._bytes += table.nbytes
        return await self._driver({"op": "ask"}, table)

    def disconnected(self, caller: Caller) -> None:
        """Do nothing. The channel has already cancelled the caller's requests."""

    def counts(self) -> dict[str, int]:
        """Return the number of requests (``queries``), and the ``rows`` and ``bytes`` that they sent."""
        return {"queries": self._requests, "rows": self._rows, "bytes": self._bytes}

    async def close(self) -> None:
        """Do nothing, because there is nothing to release."""
