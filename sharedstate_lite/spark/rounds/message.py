"""The messages that a bin receives and sends, and the interfaces that its Python worker implements.

A `BinMessage` is one row of the stream between stages. A `Store` is the part of Spark's state store that belongs to
one bin. A `WorkerRpc` asks another worker on the same host to run a bin that this other worker has in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol


class BinMessage(NamedTuple):
    """One row of the stream, addressed to a bin of a stage. Stage 0 is the driver, and ``bin`` is then the sender's.

    Bins are numbered from 0. The channel says what ``what`` and ``blob`` contain, such as the name of a view and rows.
    """

    stage: int
    bin: int
    channel: int
    what: str
    blob: bytes


StoreWrite = tuple[str, list[tuple[str, str, bytes]], list[tuple[str, str]]]
"""One write to a store: the head, the runs to add as (part, run, blob), and the runs to remove."""

BinId = tuple[str, int, int]
"""A bin's generation, stage and number."""

Heads = Mapping[tuple[int, int], Mapping[str, Any]]
"""(stage, bin) -> the decoded head of the bin."""

BinResult = tuple[list[BinMessage], list[StoreWrite]]


class Store(Protocol):
    """The state of one bin in Spark's state store: a head, and blobs, called runs, by part and name."""

    def head(self) -> str | None:
        """Return the head that was written last, or None if the bin is new."""
        ...

    def run(self, part: str, name: str) -> bytes:
        """Return the blob of the run ``name`` of ``part``."""
        ...

    def write(self, head: str, added: Iterable[tuple[str, str, bytes]], removed: Iterable[tuple[str, str]]) -> None:
        """Add runs, remove runs, and replace the head."""
        ...


class WorkerRpc(Protocol):
    """Calls other Python workers on this host. They can call this worker at ``port``."""

    port: int

    def call(self, port: int, bin_id: BinId, token: str, messages: list[BinMessage]) -> BinResult | None:
        """Run a bin in the worker at ``port``. Returns the resulting messages, and writes for the caller to perform.

        Returns None if the other worker does not have the bin in memory with this token.
        """
        ...


@dataclass
class WriteBuffer:
    """The store of a bin that runs for another worker. It collects the writes, and that worker performs them."""

    writes: list[StoreWrite] = field(default_factory=list)

    def head(self) -> str | None:
        return None

    def run(self, part: str, name: str) -> bytes:
        raise AssertionError(f"{part}, {name}: a bin that is in memory does not read runs")

    def write(self, head: str, added: Iterable[tuple[str, str, bytes]], removed: Iterable[tuple[str, str]]) -> None:
        self.writes.append((head, list(added), list(removed)))
