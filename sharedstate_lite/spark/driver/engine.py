"""An engine on Spark: :class:`~.driver.EngineDriver` over one streaming query, at a location.

    engine.json     what the engine is made from
    .lock           held while an engine runs there
    g-.../          one generation: inbox, Spark's checkpoint, outbox

Base tables, operators' state and the rows of the views are in Spark's state store, spread
over bins; nothing of them is here.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import CheckpointError, Error, ViewError, is_integer
from ...system.cache import cache_dir
from ...system.scratch import Scratch, lock_folder
from ..bins import blueprint, tables
from ..bins.bin import Plan
from ..bins.blueprint import Blueprint
from ..bins.messages import BinMessage, ticks
from ..bins.route import Route
from ..query.query import Query
from ..session.connect import ended, stateful, usable
from ..session.paths import absolute, made
from . import checkpoint_copy
from .driver import EngineDriver, one_at_a_time
from .rebuild import rebuild
from .store import StateReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BINS = 4
"""Bins a stage: what is routed, kept and moved as one."""


class SparkEngine(EngineDriver):
    """See the module; made by :func:`sharedstate_lite.spark.engine` and ``restore``. A context manager."""

    _streams: bool | None = None
    """Whether it is a stream's, which goes on as a stream only."""

    def __init__(
        self,
        plan: Blueprint,
        session: SparkSession,
        checkpoint: str | os.PathLike[str] | None,
        bins: int | None,
        copy: Path | None = None,
    ) -> None:
        usable(session, "an engine")
        bins = counted(bins)
        super().__init__(plan, bins or BINS)
        self.session = session
        self._lock, self._scratch = -1, None
        self._new = False
        """Whether the location has been begun by this call, so that nothing is to be left if it fails."""
        if checkpoint is None:
            self._scratch = Scratch(cache_dir("spark"), "engine-")
            self.location = self._scratch.path
        else:
            self.location = absolute(checkpoint)
        try:
            if copy is not None:
                checkpoint_copy.restore(copy, made(self.location), session)
            self._settle(bins)
        except BaseException:
            self._open = False
            if self._new:
                checkpoint_copy.discard(self.location)
            self._release()
            raise
        self._new = False
        entries = self._query.inbox.entries
        self.epoch = self.trace.epoch = self._query.inbox.epoch
        self._ticked = any(e.kind in ("epoch", "load") and not e.void for e in entries)

    def _settle(self, bins: int | None) -> None:
        options = self._options(bins)
        self.bins = options["bins"]
        self._label = dict(enumerate(options["labels"]))
        self._told = set(options.get("told", []))
        self._query = self._made(options, self._plan, self._route)
        checkpoint_copy.remove_generations(self.location, options["generation"])
        self._query.start()

    def _made(self, options: dict[str, Any], plan: Blueprint, route: Route) -> Query:
        work = Plan(options["generation"], self.bins, plan.routed)
        labels = {key: number for number, key in self._label.items()}
        folder = self.location / options["generation"]
        return Query(self.session, folder, work, route.stages, labels, options["began"])

    def _options(self, bins: int | None) -> dict[str, Any]:
        """What the location says of itself, or is told now if it is new."""
        where, plan = self.location, self._plan
        self._lock = lock_folder(made(where))
        if checkpoint_copy.is_copy(where):
            raise CheckpointError(
                f"{where} is a copy that stays as it is; spark.restore({str(where)!r}, session, checkpoint=...) begins "
                "from it elsewhere"
            )
        wanted = {"join": plan.join, "stream": self._streams} | ({} if bins is None else {"bins": bins})
        if told := blueprint.found(where, self._blueprint, plan.kind, wanted, "an engine on Spark"):
            options: dict[str, Any] = told["options"]
            kept = options.get("partial", {})
            if differing := [k for k, v in plan.options.items() if v and v != kept.get(k, v)]:
                said = ", ".join(f"{k} is {kept[k]!r} in it" for k in differing)
                raise CheckpointError(
                    f"{where}: {said}; go on without that option, as it was made, or choose a new folder"
                )
            checkpoint_copy.check_home(where, options)
            return options
        options, self._new = self._generation(), True
        blueprint.write(where, self._blueprint, plan.kind, options)
        return options

    def _generation(self) -> dict[str, Any]:
        stateful(self.session, "an engine")
        more = {"began": int(time.time()), "told": sorted(self._told)}
        return blueprint.fresh(self.location, self._plan.join, self.bins, **more)

    def _run(self, messages: list[BinMessage], kind: str, epoch: int) -> list[BinMessage]:
        return self._put([m._replace(bin=self._label[m.bin]) for m in messages], kind, epoch)

    def _put(self, messages: list[BinMessage] | Path, kind: str, epoch: int) -> list[BinMessage]:
        try:
            return self._query.run(messages, kind, epoch)
        except Error:
            self._check_open()  # somebody else may have closed it, or ended the session: then that is the reason
            raise

    def _interrupted(self) -> None:
        self._query.interrupted()

    def _reader(self) -> StateReader:
        return StateReader(self.session, self._query.checkpoint, self._plan.routed)

    def _heads(self) -> tables.Heads:
        return self._reader().heads()

    def _blobs(self, stage: int, part: str) -> list[bytes]:
        return self._reader().blobs(stage, part)

    @one_at_a_time
    def checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Copy all state to a new or empty folder, atomically; the query pauses meanwhile. Raises CheckpointError."""
        self._check_open()
        self._query.stop()
        try:
            checkpoint_copy.write(self.location, self._query.folder.name, absolute(path))
        finally:
            self._query.start()

    def _rebuild(self, plan: Blueprint, route: Route) -> list[BinMessage]:
        # Bins keep their numbers, so that what runs in the workers needs no map between two.
        options = self._generation() | {"labels": [self._label[n] for n in range(self.bins)]}
        before, after = self._query, self._made(options, plan, route)
        try:
            file = rebuild(self._reader(), after, route, self._label, ticks(route.ticked()))
            after.start()
            out = after.run(file, "load", self.epoch)
            shutil.rmtree(file.parents[0 if file.parent.name == "load" else 1])
            blueprint.write(self.location, route.engine, plan.kind, options)
        except BaseException:
            after.stop()
            shutil.rmtree(after.folder, ignore_errors=True)
            raise
        self._query = after
        before.stop()
        shutil.rmtree(before.folder, ignore_errors=True)
        return out

    def progress(self) -> list[Any]:
        """What Spark tells of the last micro-batches since the query was started: its StreamingQueryProgress."""
        self._check_open()
        return self._query.progress()

    def _check_open(self) -> None:
        super()._check_open()
        if ended(self.session):
            raise Error(
                "the Spark session of this engine has ended; close() it, start another session, and go on with "
                "spark.restore(checkpoint, session) if it had a checkpoint of its own"
            )

    def close(self) -> None:
        """Stop the query; a temporary checkpoint goes with it. A second call does nothing."""
        if self._open:
            super().close()
            self._query.close()
            self._last()
            self._query.close()  # an install may have exchanged it
            self._release()

    def _last(self) -> None:
        """Wait until the call that is under way has been told."""
        with self._calls:
            pass

    def _release(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        if self._scratch is not None:
            self._scratch.close()


def counted(bins: int | None) -> int | None:
    """How many bins were asked for, if any were. Raises ViewError for what is no such number."""
    if bins is None:
        return None
    if not is_integer(bins) or bins < 1:
        raise ViewError(f"bins={bins!r}: it is a whole number from 1; {BINS} suits two cores")
    return int(bins)


__all__ = ["BINS", "SparkEngine", "counted"]
