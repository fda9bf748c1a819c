"""Wait until a system accepts connections."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ..wire.client import Generator
from ..wire.jobs import Target

_GLANCE = 0.05
"""Seconds between two tries. There is no event when a process starts listening on a port, so it must be polled."""


def closed(targets: Sequence[Target], scout: Generator, seconds: float, tend: Callable[[], None] | None = None) -> str:
    """Wait until every address accepts connections, but at most ``seconds``.

    Returns the first address that does not accept connections, or "" if all do. ``tend`` is called between tries, to
    restart processes that have exited.
    """
    until = time.monotonic() + seconds
    while silent := next((target for target in targets if not scout.knock(target)), None):
        if time.monotonic() > until:
            return f"{silent.host}:{silent.port}"
        if tend is not None:
            tend()
        time.sleep(_GLANCE)  # see _GLANCE
    return ""
