"""The engine on Spark: an `EngineDriver` that runs one streaming query and keeps its files in one folder, its location.

    run.json        views, strategy and options
    .lock           a file that is locked while an engine uses the folder
    g-.../          one generation: inbox, Spark's checkpoint, outbox

All rows are in Spark's state store, grouped by bin: the base tables, the operators' state, and the rows of the views.
A generation is one streaming query. Installing or dropping a view starts a new generation.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import Error, ViewError, is_integer
from ...system.cache import cache_dir
from ...system.scratch import Scratch, lock_folder
from ..bins import engine_spec
from ..bins.bin import ViewRecipe
from ..bins.channels import init_globals
from ..bins.engine_spec import EngineSpec
from ..bins.route import Route
from ..rounds.inbox import RoundKind
from ..rounds.message import BinMessage
from ..rounds.query import Query
from ..session.checks import ended, stateful, usable
from ..session.paths import absolute, made
from . import checkpoint_copy
from .change_views import change_views
from .driver import EngineDriver, one_at_a_time
from .store import EngineReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BINS = 4
"""The default number of bins per stage."""


class SparkEngine(EngineDriver):
    """An engine on Spark, created by `sharedstate_lite.spark.engine` or ``restore``; see the module's docstring.

    A context manager, which closes the engine.
    """

    _query: Query
    recipe_class: type[Any] = ViewRecipe
    owner = ""
    """A random text that names the checkpoint. A stream writes it into the folder of its sink."""

    resumed = False
    """Whether there was a checkpoint, from which the engine continued."""

    def __init__(
        self,
        spec: EngineSpec,
        session: SparkSession | None,
        checkpoint: str | os.PathLike[str] | None,
        bins: int | None,
        copy: Path | None = None,
        sources: Mapping[str, str | None] | None = None,
    ) -> None:
        self.session = usable(session, "an engine")
        self._stream: dict[str, Any] = {"stream": None} if sources is None else {"stream": True, "sources": sources}
        """What the checkpoint of a stream has. Only a stream with the same sources can use it."""
        bins = checked_bins(bins)
        super().__init__(spec, bins or BINS)
        self._lock, self._scratch = -1, None
        self._new = False
        """Whether this constructor call created the checkpoint, and must remove it if a later step fails."""
        if checkpoint is None:
            self._scratch = Scratch(cache_dir("spark"), "engine-")
            self.location = self._scratch.path
        else:
            self.location = absolute(checkpoint)
        try:
            if copy is not None:
                checkpoint_copy.restore(copy, made(self.location), self.session)
            self._settle(bins)
        except BaseException:
            self._open = False
            if self._new:
                checkpoint_copy.discard(self.location)
            self._release()
            raise
        self.resumed, self._new = not self._new, False
        entries = self._query.inbox.entries
        self.epoch = self.trace.epoch = self._query.inbox.epoch
        self._initialized = any(e.kind in (RoundKind.EPOCH, RoundKind.LOAD) and not e.void for e in entries)

    def _settle(self, bins: int | None) -> None:
        options = self._options(bins)
        self.bins, self.owner = options["bins"], options["owner"]
        self._late_views = set(options["late_views"])
        self._query = self._made(options, self._spec, self._route)
        checkpoint_copy.remove_generations(self.location, options["generation"])
        self._query.start()

    def _made(self, options: dict[str, Any], spec: EngineSpec, route: Route) -> Query:
        recipe = self.recipe_class(options["generation"], self.bins, spec.route)
        return Query(self.session, self.location / options["generation"], recipe, route.stages, options["began"])

    def _options(self, bins: int | None) -> dict[str, Any]:
        """Return the options stored in the checkpoint. If the checkpoint is new, write them first."""
        where, spec = self.location, self._spec
        self._lock = lock_folder(made(where))
        wanted = self._stream | ({} if bins is None else {"bins": bins})
        if found := engine_spec.read_matching(where, self._empty_engine, spec, wanted):
            return dict(found["options"])
        options, self._new = self._generation(), True
        engine_spec.write(where, self._empty_engine, spec.kind, options)
        return options

    def _generation(self) -> dict[str, Any]:
        stateful(self.session, "an engine")
        more = {"began": int(time.time()), "late_views": sorted(self._late_views), "owner": secrets.token_hex(6)}
        return engine_spec.new_options(self._spec, self.bins, **more, **self._stream)

    @one_at_a_time
    def checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Copy all state atomically to ``path``, a new or empty folder. Raises CheckpointError.

        The query is stopped during the copy, and started again afterwards.
        """
        self._check_open()
        self._query.stop()
        try:
            checkpoint_copy.write(self.location, self._query.folder.name, absolute(path))
        finally:
            self._query.start()

    def _rebuild(self, spec: EngineSpec, route: Route) -> list[BinMessage]:
        options = self._generation()
        before, after = self._query, self._made(options, spec, route)
        try:
            reader = EngineReader(self.session, before.checkpoint, self._spec.route)
            first = change_views(reader, after, init_globals(route.global_stages()))
            after.start()
            out = after.run(first, RoundKind.LOAD, self.epoch)
            shutil.rmtree(after.folder / "load", ignore_errors=True)
            engine_spec.write(self.location, route.engine, spec.kind, options)
        except BaseException:
            after.stop()
            shutil.rmtree(after.folder, ignore_errors=True)
            raise
        self._query = after
        before.stop()
        shutil.rmtree(before.folder, ignore_errors=True)
        return out

    def progress(self) -> list[Any]:
        """Return Spark's StreamingQueryProgress reports for the latest micro-batches since the query was started."""
        self._check_open()
        return self._query.progress()

    def _check_open(self) -> None:
        super()._check_open()
        if ended(self.session):
            raise Error(
                "the Spark session of this engine has ended; close() the engine and start another session. If the "
                "engine was created with checkpoint=, call spark.restore(checkpoint, session) to continue"
            )

    def close(self) -> None:
        """Stop the query, and remove the checkpoint if it is temporary. Calling it again has no effect."""
        if self._open:
            super().close()
            self._query.close()
            with self._call_lock:
                pass  # calls of other threads have returned
            self._query.close()  # a concurrent install or drop may have replaced the query
            self._release()

    def _release(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        if self._scratch is not None:
            self._scratch.close()


def checked_bins(bins: int | None) -> int | None:
    """Return ``bins`` as an int, or None if it is None. Raises ViewError if it is not a whole number of at least 1."""
    if bins is None:
        return None
    if not is_integer(bins) or bins < 1:
        raise ViewError(f"bins={bins!r}: pass a whole number of at least 1; {BINS} bins are enough for two cores")
    return int(bins)
