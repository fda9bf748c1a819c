"""The runtime of this process, for coroutines that run inside it. Unset in every other process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

find: Callable[[str], Awaitable[Any]] | None = None
"""Returns a resource of this runtime by its name."""
loop: asyncio.AbstractEventLoop | None = None
"""The event loop that all resources run on."""


async def call(name: str, work: Callable[[Any], Awaitable[Any]]) -> Any:
    """Run ``work(resource)`` on the resources' loop, and await its result on this one."""
    assert find is not None and loop is not None
    finding = find

    async def on_their_loop() -> Any:
        return await work(await finding(name))

    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(on_their_loop(), loop))
