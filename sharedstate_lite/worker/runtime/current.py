"""Gives coroutines access to the runtime in which they run. In other processes, the variables are None."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

find: Callable[[str], Awaitable[Any]] | None = None
"""Returns the resource of this runtime that has the given name."""
loop: asyncio.AbstractEventLoop | None = None
"""The event loop on which all resources of this runtime run."""


async def call(name: str, work: Callable[[Any], Awaitable[Any]]) -> Any:
    """Find the resource called ``name``, run ``work(resource)`` on the resources' event loop, and return the result.

    The caller runs on another event loop, which is not blocked while it waits.
    """
    assert find is not None and loop is not None
    finding = find

    async def on_their_loop() -> Any:
        return await work(await finding(name))

    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(on_their_loop(), loop))
