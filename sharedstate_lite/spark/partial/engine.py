"""Partial state on Spark: a `PartialDriver` that runs one streaming query, and the base tables outside the bins.

    g-.../base/N/    the base table of relation N of the catalog, as Parquet files (`base_parquet`)

If a driver is killed between two rounds, some messages have not been delivered yet. They are in the outboxes of the
last micro-batches, and the next engine delivers them.
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
from ..bins.engine_spec import EngineSpec
from ..driver.engine import SparkEngine
from ..rounds.inbox import RoundKind
from ..rounds.message import BinMessage
from ..rounds.query import Query
from .base_parquet import ParquetTable
from .base_postgres import Postgres, PostgresTable
from .base_spark import BaseTable, SparkBaseTables
from .bin import PartialRecipe
from .driver import PartialDriver
from .scheduler import ExclusiveRequest, RoundScheduler

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class PartialSparkEngine(PartialDriver, SparkEngine):
    """A partial engine on Spark, created by `sharedstate_lite.spark.engine` or ``restore``.

    A context manager, which closes the engine.
    """

    def __init__(
        self,
        spec: EngineSpec,
        session: SparkSession,
        checkpoint: Any,
        bins: int | None,
        copy: Path | None = None,
        base: Mapping[str, Postgres] | None = None,
    ) -> None:
        self._given: dict[str, Any] = dict(base or {})
        self._base_tables: SparkBaseTables | None = None
        self._undone: Error | None = None
        """The error that made the constructor undo the last epoch. The process that called ``step`` was killed."""
        RoundScheduler.__init__(self)
        SparkEngine.__init__(self, spec, session, checkpoint, bins, copy)
        try:
            self.base_tables.take_back(self.epoch)
            self._resume()
        except BaseException:
            self.close()
            raise

    @property
    def base_tables(self) -> SparkBaseTables:
        """See `PartialDriver.base_tables`."""
        assert self._base_tables is not None
        return self._base_tables

    def _made(self, options: dict[str, Any], spec: EngineSpec, route: Any) -> Query:
        folder = self.location / options["generation"]
        budget = route.engine.budget.set
        recipe = PartialRecipe(options["generation"], self.bins, spec.route, budget=budget)
        relations = route.engine.catalog.relations
        if options["base"] != sorted(self._given):
            raise CheckpointError(
                f"{self.location}: this checkpoint was created with base= for {', '.join(options['base']) or 'none'}, "
                f"not for {', '.join(sorted(self._given)) or 'none'}; pass base= for the same relations"
            )
        given: dict[str, Postgres] = {}
        for name, table in self._given.items():
            relation = known(route.engine.catalog, name)[0]
            if not isinstance(table, Postgres):
                raise RelationError(f"base: {relation}={table!r} is not a table; pass spark.Postgres(server, table)")
            given[relation] = table
        (folder / "base").mkdir(parents=True, exist_ok=True)

        def open_table(relation: str) -> BaseTable:
            schema = relations[relation]
            if relation in given:
                return PostgresTable(given[relation], self.session, relation, schema, self._new)
            return ParquetTable(self.session, folder / "base" / str(list(relations).index(relation)), relation, schema)

        self._base_tables = SparkBaseTables(self.session, open_table, relations, folder)
        self._base_tables.bins, self._base_tables.make = self.bins, spec.route
        return Query(self.session, folder, recipe, route.stages, options["began"])

    def _generation(self) -> dict[str, Any]:
        return super()._generation() | {"base": sorted(self._given)}

    def _resume(self) -> None:
        """Deliver the messages of the last micro-batches that an earlier process did not deliver."""
        entries = self._query.inbox.entries
        # A rescaling is a micro-batch without messages, so messages of the micro-batch before it are still open.
        last = max((n for n, e in enumerate(entries) if e.kind is not RoundKind.RESCALE), default=-1)
        if last < 0:
            return
        before = (RoundKind.EPOCH, RoundKind.RESCALE)
        while last > 0 and entries[last].kind is RoundKind.EPOCH and entries[last - 1].kind not in before:
            last -= 1
        self._recall_counters()
        recovered = max((n for n, e in enumerate(entries) if e.kind is RoundKind.RECOVERY), default=-1)
        voided = [e for e in entries[recovered + 1 :] if e.void]
        refused = {e.kind for e in voided if e.kind is not RoundKind.EPOCH or not e.sha256}
        if refused:
            # A micro-batch was rejected, and the driver was killed before it called `_recover`.
            if RoundKind.ROUND in refused:
                self._undo_epoch(self._query.refusal)
            command = "abandon" if refused == {RoundKind.READ} else "forget"
            self._collect(self._run(self._commands(command), RoundKind.RECOVERY, self.epoch))
            self._messages, self._touches, self._upqueries = [], [], []
        try:
            sent = [] if refused else [e.number for e in entries[last:] if e.kind is not RoundKind.RESCALE]
            self._collect([m for number in sent for m in self._query.output(number)])
            while self._messages or self._upqueries:
                self._run_round([])
        except Error as error:
            # The callers that waited for these messages are gone. A new lookup of the same keys raises the error.
            self._messages, self._touches, self._upqueries = [], [], []
            if not isinstance(error, CheckpointError):
                self._undo_epoch(error)
            self._run_rounds(self._commands("forget"), RoundKind.RECOVERY)
        self._evicted, self.rounds = [], 0

    def _undo_epoch(self, error: Error | None) -> None:
        """Undo the last epoch, because one of its rounds failed.

        Do nothing if the last micro-batch, apart from rounds and rescalings, is not an epoch or was undone already.
        """
        later = (RoundKind.ROUND, RoundKind.RESCALE)
        last = next((e for e in reversed(self._query.inbox.entries) if e.kind not in later), None)
        if last is not None and last.kind is RoundKind.EPOCH and not last.void:
            self._undone = error
            self._take_back(last.epoch - 1, started=True)
            self.epoch = self.trace.epoch = last.epoch - 1

    def _take_back(self, epoch: int, started: bool) -> None:
        if started:
            self._query.inbox.void_epoch(epoch + 1)
        super()._take_back(epoch, started)

    def checkpoint(self, path: Any) -> None:
        """Copy all state, and base tables that are files, to a new or empty folder; see `SparkEngine.checkpoint`."""
        self._check_open()
        self._submit(ExclusiveRequest(run=lambda: SparkEngine.checkpoint(self, path)))

    def _rebuild(self, spec: EngineSpec, route: Any) -> list[BinMessage]:
        from ..bins import engine_spec

        options = self._generation()
        before, tables = self._query, self._base_tables
        here, there = before.folder, self.location / options["generation"]
        # The files of base tables never change, so both generations can link to the same files.
        shutil.copytree(here / "base", there / "base", copy_function=_link)
        after = self._made(options, spec, route)
        try:
            after.start()
            after.run([], RoundKind.LOAD, self.epoch)
            engine_spec.write(self.location, route.engine, spec.kind, options)
        except BaseException:
            after.stop()
            self._base_tables = tables
            shutil.rmtree(there, ignore_errors=True)
            raise
        self._query = after
        before.stop()
        shutil.rmtree(here, ignore_errors=True)
        return []

    def _wait_for_calls(self) -> None:
        with self._condition:
            while self._busy:
                self._condition.wait()

    def _release(self) -> None:
        if self._base_tables is not None:
            self._base_tables.close()
        SparkEngine._release(self)


def _link(source: str, target: str) -> None:
    if source.endswith(".parquet"):
        # If the file system does not support hard links, copy the file.
        with contextlib.suppress(OSError):
            os.link(source, target)
            return
    shutil.copy2(source, target)
