"""An engine on Spark: :class:`~.front.Front` over one streaming query, at a location.

    engine.json     what the engine is made from
    .lock           held while an engine runs there
    g-.../          one generation: inbox, Spark's checkpoint, outbox

Base tables, operators' state and the rows of the views are in Spark's state store, spread
over bins; nothing of them is here.
"""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cache import cache_dir
from ..errors import CheckpointError, ViewError
from . import blueprint
from .bins import Message, Plan
from .blueprint import Blueprint
from .front import Front
from .query import Query
from .scratch import Scratch, lock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BINS = 4
"""Bins a stage: what is routed, kept and moved as one."""


class SparkEngine(Front):
    """See the module; made by :func:`sharedstate_lite.spark.engine` and ``restore``. A context manager."""

    def __init__(
        self, plan: Blueprint, session: SparkSession, checkpoint: str | os.PathLike[str] | None, bins: int | None
    ) -> None:
        if bins is not None and (isinstance(bins, bool) or not isinstance(bins, int) or bins < 1):
            raise ViewError(f"bins={bins!r}: it is a whole number from 1; {BINS} suits two cores")
        super().__init__(plan, bins or BINS)
        self.session = session
        self._lock, self._scratch = -1, None
        if checkpoint is None:
            self._scratch = Scratch(cache_dir("spark"), "engine-")
            self.location = self._scratch.path
        else:
            self.location = Path(checkpoint).expanduser().absolute()
        try:
            self._settle(bins)
        except BaseException:
            self._open = False
            self._release()
            raise
        self.epoch = self.trace.epoch = self._query.inbox.epoch

    def _settle(self, bins: int | None) -> None:
        options = self._options(bins)
        self.bins = options["bins"]
        labels = _labels(self.session, self.bins)
        self._label = {number: key for key, number in labels.items()}
        work = Plan(options["generation"], self.bins, self._plan.routed)
        folder = self.location / options["generation"]
        self._query = Query(self.session, folder, work, self._route.stages, labels, options["began"])
        self._query.start()

    def _options(self, bins: int | None) -> dict[str, Any]:
        """What the location says of itself, or is told now if it is new."""
        where, plan = self.location, self._plan
        where.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(where / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        if not lock(self._lock):
            raise CheckpointError(f"{where}: another engine is running there; close it first, or choose another folder")
        there = [f for f in where.iterdir() if not f.name.startswith(".")]
        if (where / blueprint.FILE).exists():
            told = blueprint.read(where)
            wanted = {"join": plan.join} | ({} if bins is None else {"bins": bins})
            blueprint.same(told, self._blueprint, plan.kind, wanted, where)
            return dict(told["options"])
        if there:
            raise CheckpointError(
                f"{where} is neither empty nor a checkpoint of an engine on Spark; choose a new folder"
            )
        options = {
            "join": plan.join,
            "bins": self.bins,
            "generation": f"g-{secrets.token_hex(6)}",
            "began": int(time.time()),
        }
        blueprint.write(where, self._blueprint, plan.kind, options)
        return options

    def _run(self, messages: list[Message], kind: str, epoch: int) -> list[Message]:
        return self._query.run([m._replace(bin=self._label[m.bin]) for m in messages], kind, epoch)

    def close(self) -> None:
        """Stop the query; a temporary checkpoint goes with it. A second call does nothing."""
        if self._open:
            super().close()
            self._query.stop()
            self._release()

    def _release(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        if self._scratch is not None:
            self._scratch.close()


def _labels(session: SparkSession, bins: int) -> dict[int, int]:
    """For each bin the number that Spark groups it by, chosen so that bins lie evenly on the partitions."""
    partitions = int(session.conf.get("spark.sql.shuffle.partitions") or 2)
    text = (
        f"SELECT transform(sequence(0, {64 * bins * partitions}), x -> pmod(hash(CAST(x AS INT)), {partitions})) AS p"
    )
    found: list[int] = session.sql(text).collect()[0][0]
    free: dict[int, list[int]] = {p: [] for p in range(partitions)}
    for label, partition in enumerate(found):
        free[partition].append(label)
    return {free[number % partitions].pop(0): number for number in range(bins)}


__all__ = ["BINS", "SparkEngine"]
