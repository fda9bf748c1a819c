"""Questions of tasks on their way to the driver, and its answers on their way back."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from .resource import Caller, Context, Head, Reply


class MailboxState:
    """Passes each on over the lease, many at a time."""

    def __init__(self, context: Context, options: dict[str, Any]) -> None:
        self._driver = context.driver
        self._asked = self._rows = self._bytes = 0

    async def answer(self, head: Head, table: pa.Table | None, caller: Caller) -> Reply:
        """The driver's answer."""
        assert table is not None
        self._asked += 1
        self._rows += table.num_rows
        self._bytes += table.nbytes
        return await self._driver({"op": "letter"}, table)

    def left(self, caller: Caller) -> None:
        """The line has ended with what it asked."""

    def counts(self) -> dict[str, int]:
        """queries: letters; rows and bytes: what was in them."""
        return {"queries": self._asked, "rows": self._rows, "bytes": self._bytes}

    async def close(self) -> None:
        """There is nothing to let go of."""
