"""The channels of a view's messages: the number that says what a `BinMessage` contains.

The channels of a route, on which an operator's changes travel, are numbered from 1.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..rounds.message import BinMessage

OUT, ASK, COMPACT, INIT_GLOBAL = 0, -1, -2, -3
"""A view's change, a read, and two commands. INIT_GLOBAL creates the first row of aggregates without GROUP BY."""

ROWS = -5
"""The channel on which a task reports to the driver how many input rows it read."""


def init_globals(stages: Iterable[int]) -> list[BinMessage]:
    """Return the messages that create the first row of aggregates without GROUP BY in these stages."""
    return [BinMessage(stage, 0, INIT_GLOBAL, "", b"") for stage in stages]
