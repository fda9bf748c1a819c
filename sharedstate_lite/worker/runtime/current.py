"""What code that runs in the runtime itself may ask of it: nothing elsewhere, where there is no runtime."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

find: Callable[[str], Awaitable[Any]] | None = None
"""A thing of this runtime, by its name."""
loop: asyncio.AbstractEventLoop | None = None
"""The loop that the things live on."""


async def call(name: str, work: Callable[[Any], Awaitable[Any]]) -> Any:
    """Do something with a thing on its own loop, and wait for it here."""
    assert find is not None and loop is not None
    finding = find

    async def there() -> Any:
        return await work(await finding(name))

    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(there(), loop))
