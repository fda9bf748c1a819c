"""Partial state on Spark: :class:`~.driver.PartialDriver` over one streaming query, its base tables beside it.

    g-.../base/N/    the base table of relation N of the catalog, as Parquet (:mod:`.base_parquet`)

A driver that was killed between two rounds has left questions on their way: they are in what the
last micro-batches sent out, and are sent on when the engine starts again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...changelog.validate import relation as known
from ...errors import CheckpointError, Error, RelationError
from ..bins.blueprint import Blueprint
from ..bins.messages import BinMessage
from ..driver.engine import SparkEngine
from ..query.query import Query
from .base import BaseTables
from .base_given import Postgres
from .base_parquet import ParquetTable
from .base_postgres import PostgresTable
from .base_rows import BaseTable, SparkBaseTables
from .bin import PartialPlan
from .driver import PartialDriver
from .scheduler import ExclusiveRequest, RoundScheduler

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class PartialSparkEngine(PartialDriver, SparkEngine):
    """See the module; made by :func:`sharedstate_lite.spark.engine` and ``restore``. A context manager."""

    def __init__(
        self,
        plan: Blueprint,
        session: SparkSession,
        checkpoint: Any,
        bins: int | None,
        copy: Path | None = None,
        base: Mapping[str, Postgres] | None = None,
    ) -> None:
        if base is not None and not isinstance(base, Mapping):
            raise RelationError(f"base={base!r}: it is {{relation: spark.Postgres(server, table)}}")
        self._given: dict[str, Any] = dict(base or {})
        self._base_: SparkBaseTables | None = None
        self._undone: Error | None = None
        """Why the last epoch was taken back when this began; whoever stepped is not there any more."""
        RoundScheduler.__init__(self)
        SparkEngine.__init__(self, plan, session, checkpoint, bins, copy)
        try:
            self._base.take_back(self.epoch)
            self._go_on()
        except BaseException:
            self.close()
            raise

    @property
    def _base(self) -> BaseTables:
        assert self._base_ is not None
        return self._base_

    def _made(self, options: dict[str, Any], plan: Blueprint, route: Any) -> Query:
        labels = {key: number for number, key in self._label.items()}
        folder = self.location / options["generation"]
        budget = route.engine.budget.set
        work = PartialPlan(options["generation"], self.bins, plan.routed, budget=budget)
        relations = route.engine.catalog.relations
        if options["base"] != sorted(self._given):
            raise CheckpointError(
                f"{self.location}: the base tables of {', '.join(options['base']) or 'no relation'} were given when it "
                f"was made, and now those of {', '.join(sorted(self._given)) or 'none'}; give the same with base="
            )
        given: dict[str, Postgres] = {}
        for name, table in self._given.items():
            relation = known(route.engine.catalog, name)[0]
            if not isinstance(table, Postgres):
                raise RelationError(f"base: {relation} is given {table!r}; give spark.Postgres(server, table)")
            if any(relation == r or (table.where, table.table) == (t.where, t.table) for r, t in given.items()):
                raise RelationError(f"base: {relation} is given twice, or its table is another's; each has one")
            given[relation] = table
        (folder / "base").mkdir(parents=True, exist_ok=True)

        def opened(relation: str) -> BaseTable:
            schema = relations[relation]
            if relation in given:
                return PostgresTable(given[relation], self.session, relation, schema, self._new)
            return ParquetTable(self.session, folder / "base" / str(list(relations).index(relation)), relation, schema)

        self._base_ = SparkBaseTables(self.session, opened, relations, folder)
        self._base_.label, self._base_.make = self._label, plan.routed
        return Query(self.session, folder, work, route.stages, labels, options["began"])

    def _generation(self) -> dict[str, Any]:
        return super()._generation() | {"partial": dict(self._plan.options), "base": sorted(self._given)}

    def _run(self, messages: list[BinMessage] | Path, kind: str, epoch: int) -> list[BinMessage]:
        if not isinstance(messages, Path):
            messages = [m._replace(bin=self._label[m.bin]) for m in messages]
        return self._unlabelled(self._put(messages, kind, epoch))

    def _unlabelled(self, messages: list[BinMessage]) -> list[BinMessage]:
        number = {label: n for n, label in self._label.items()}
        return [m._replace(bin=number[m.bin]) for m in messages]

    def _go_on(self) -> None:
        """Send on what the last micro-batches have left on its way."""
        entries = self._query.inbox.entries
        # A rescaling is a micro-batch that sends nothing; what was on its way before has come before it goes on.
        last = max((n for n, e in enumerate(entries) if e.kind != "rescale"), default=-1)
        if last < 0:
            return
        while last > 0 and entries[last].kind == "epoch" and entries[last - 1].kind not in ("epoch", "rescale"):
            last -= 1
        self._recall()
        mended = max((n for n, e in enumerate(entries) if e.kind == "mend"), default=-1)
        hurt = {e.kind for e in entries[mended + 1 :] if e.void and (e.kind != "epoch" or not e.sha256)}
        if hurt:
            # A batch was refused, and the driver killed before it had set the bins right.
            if "round" in hurt:
                self._undo_epoch(self._query.refusal)
            self._collect(self._run(self._orders("abandon" if hurt == {"read"} else "forget"), "mend", self.epoch))
            self._letters, self._lazy, self._questions = [], [], []
        try:
            sent = [] if hurt else [e.number for e in entries[last:] if e.kind != "rescale"]
            found = [m for number in sent for m in self._query.came_out(number)]
            self._collect(self._unlabelled(found))
            while self._letters or self._questions:
                self._turn_once([])
        except Error as error:
            # Nobody waits for what it refuses or has lost; whoever asks again is told.
            self._letters, self._lazy, self._questions = [], [], []
            if not isinstance(error, CheckpointError):
                self._undo_epoch(error)
            self._turn_all(self._orders("forget"), "mend")
        self._gone, self.rounds = [], 0

    def _undo_epoch(self, error: Error | None) -> None:
        """A round was refused: take back the epoch if it was one's; an epoch that is done is not followed by rounds."""
        last = next((e for e in reversed(self._query.inbox.entries) if e.kind not in ("round", "rescale")), None)
        if last is not None and last.kind == "epoch" and not last.void:
            self._undone = error
            self._take_back(last.epoch - 1, late=True)
            self.epoch = self.trace.epoch = last.epoch - 1

    def _take_back(self, epoch: int, late: bool) -> None:
        if late:
            self._query.inbox.disown(epoch + 1)
        super()._take_back(epoch, late)

    def checkpoint(self, path: Any) -> None:
        """Copy all state, base tables in files included, to a new or empty folder; see :class:`~..driver.engine.SparkEngine`."""
        self._check_open()
        self._do(ExclusiveRequest(run=lambda: SparkEngine.checkpoint(self, path)))

    def _rebuild(self, plan: Blueprint, route: Any) -> list[BinMessage]:
        from ..bins import blueprint

        options = self._generation() | {"labels": [self._label[n] for n in range(self.bins)]}
        before, kept = self._query, self._base_
        here, there = before.folder, self.location / options["generation"]
        # Files of base tables are never changed, so both generations may have them.
        shutil.copytree(here / "base", there / "base", copy_function=_link)
        after = self._made(options, plan, route)
        try:
            after.start()
            after.run([], "load", self.epoch)
            blueprint.write(self.location, route.engine, plan.kind, options)
        except BaseException:
            after.stop()
            self._base_ = kept
            shutil.rmtree(there, ignore_errors=True)
            raise
        self._query = after
        before.stop()
        shutil.rmtree(here, ignore_errors=True)
        return []

    def _last(self) -> None:
        with self._turn:
            while self._busy:
                self._turn.wait()

    def _release(self) -> None:
        if self._base_ is not None:
            self._base_.close()
        SparkEngine._release(self)


def _link(source: str, target: str) -> None:
    if source.endswith(".parquet"):
        # Where a file system has no second names, a copy does.
        with contextlib.suppress(OSError):
            os.link(source, target)
            return
    shutil.copy2(source, target)


__all__ = ["PartialSparkEngine"]
