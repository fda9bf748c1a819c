"""The state behind a Mailbox or an Exchange, which forwards the tasks' requests to the driver."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from .resource import Caller, Context, Head, Reply


class MailboxState:
    """Forwards requests over the lease, many at the same time, and counts them."""

    def __init__(self, context: Context, options: dict[str, Any]) -> None:
        self._driver = context.driver
        self._requests = self._rows = self._sent = 0

    async def answer(self, head: Head, table: pa.Table | None, caller: Caller) -> Reply:
        """Forward the request to the driver, and return the driver's answer."""
        self._requests += 1
        said, answer = await self._driver({"op": "ask"}, table)
        assert answer is not None
        self._rows += answer.num_rows
        self._sent += answer.nbytes
        return said, answer

    def disconnected(self, caller: Caller) -> None:
        """Do nothing. The channel has already cancelled the caller's requests."""

    def counts(self) -> dict[str, int]:
        """Return the counters of the requests and of their answers."""
        return {"requests": self._requests, "rows": self._rows, "sent": self._sent}

    async def close(self) -> None:
        """Do nothing, because there is nothing to release."""
