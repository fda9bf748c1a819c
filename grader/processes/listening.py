"""Wait until a system listens, whoever started it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ..wire.client import Generator
from ..wire.jobs import Target

_GLANCE = 0.05
"""Seconds between two knocks at a port: one that begins to listen announces nothing, so it can only be asked again."""


def closed(targets: Sequence[Target], scout: Generator, seconds: float, tend: Callable[[], None] | None = None) -> str:
    """Wait until every address accepts connections; one that does not within so many seconds, "" if all do.

    Meanwhile ``tend`` is called, for processes that have no other sign of being ready.
    """
    until = time.monotonic() + seconds
    while silent := next((target for target in targets if not scout.knock(target)), None):
        if time.monotonic() > until:
            return f"{silent.host}:{silent.port}"
        if tend is not None:
            tend()
        time.sleep(_GLANCE)  # a port that begins to listen announces nothing: it can only be knocked at again
    return ""
