"""What a bin receives and sends, and what it needs from its Python worker.

A `BinMessage` is one row of the stream between stages. A `Store` is the part of Spark's state store that belongs to
one bin. A `WorkerRpc` asks another worker of the same host to run a bin that it has in memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

OUT, ASK, COMPACT, INIT_GLOBAL = 0, -1, -2, -3
"""Channel numbers of messages that carry no change of an operator: a view's change, a read, and two commands.

INIT_GLOBAL creates the first row of aggregates without GROUP BY. Channels of a route count from 1.
"""

ROWS = -5
"""The channel on which a task reports to the driver how many input rows it read."""

FOUND = {
    "new": "the store had no state of the bin",
    "used": "in memory, confirmed by the store's token",
    "stale": "in memory, but another process has written since: what differs was read again",
    "missing": "not in memory: read from the store",
}
"""What a process had of a bin before an epoch."""


class BinMessage(NamedTuple):
    """One row of the stream. ``stage`` 0 is the driver; ``what`` names a view, a read, or the kind of an answer."""

    stage: int
    bin: int
    channel: int
    what: str
    blob: bytes


def init_globals(stages: Iterable[int]) -> list[BinMessage]:
    """The messages that create the first row of aggregates without GROUP BY in these stages."""
    return [BinMessage(stage, 0, INIT_GLOBAL, "", b"") for stage in stages]


StoreWrite = tuple[str, list[tuple[str, str, bytes]], list[tuple[str, str]]]
"""One write to a store: the head, the runs to add as (arrangement, run, blob), and the runs to remove."""

BinId = tuple[str, int, int]
"""A bin's generation, stage and number."""

BinResult = tuple[list[BinMessage], list[StoreWrite]]


class Store(Protocol):
    """The state of one bin in Spark's state store: a head, and runs by arrangement and name."""

    def head(self) -> str | None:
        """The head that was written last; None for a new bin."""
        ...

    def run(self, part: str, name: str) -> bytes:
        """The blob of a run."""
        ...

    def write(self, head: str, added: Iterable[tuple[str, str, bytes]], removed: Iterable[tuple[str, str]]) -> None:
        """Add runs, remove runs, and replace the head."""
        ...


class WorkerRpc(Protocol):
    """Calls to the other Python workers of this host, and the port on which they reach this one."""

    port: int

    def call(self, port: int, bin_id: BinId, token: str, messages: list[BinMessage]) -> BinResult | None:
        """Run a bin in the worker at ``port``: its messages, and what the caller must write to the store.

        None if that worker does not have the bin under this token.
        """
        ...


@dataclass
class WriteBuffer:
    """The store of a bin that runs for another worker: it collects the writes, which the caller performs."""

    writes: list[StoreWrite] = field(default_factory=list)

    def head(self) -> str | None:
        return None

    def run(self, part: str, name: str) -> bytes:
        raise AssertionError(f"{part}, {name}: a bin that is in memory reads no runs")

    def write(self, head: str, added: Iterable[tuple[str, str, bytes]], removed: Iterable[tuple[str, str]]) -> None:
        self.writes.append((head, list(added), list(removed)))
