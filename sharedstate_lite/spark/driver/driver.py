"""The driver's half of an engine over bins: it turns calls into messages for the bins, and their messages into answers.

The driver checks an epoch, sends each row to the bins that need it, and keeps no rows. How messages pass the stages is
left open (`EngineDriver._run`): on Spark through a streaming query (`engine`), in tests in one process. A read is a
message through the same stages, so it answers for the epoch before it.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, Self, TypeVar, cast

import pandas as pd

from ...changelog import validate
from ...changelog.changes import Changes, sorted_frame
from ...engine import view_rules
from ...engine.engine import EpochInput
from ...engine.events import EventLog
from ...engine.state_tables import state_html
from ...errors import Error, TimeError, ViewError, is_integer, shorten
from ...plan.view import View
from ...storage import wire
from ...storage.batch import Delta, concat
from ...storage.encoding import Dictionary
from ..bins import tables
from ..bins.engine_spec import EngineSpec
from ..bins.messages import ASK, COMPACT, OUT, BinMessage, init_globals
from ..bins.route import Route
from ..bins.strings import ProcessStrings

C = TypeVar("C", bound=Callable[..., Any])


def one_at_a_time(method: C) -> C:
    """Make calls of a method from several threads wait for each other."""

    @wraps(method)
    def call(self: EngineDriver, *given: Any, **named: Any) -> Any:
        with self._call_lock:
            result = method(self, *given, **named)
            self._raise_interrupt()
            return result

    return cast(C, call)


class EngineDriver(ABC):
    """The protocol of `sharedstate_lite.engine.engine.Engine` over ``bins`` bins a stage. A context manager."""

    _make_lock: Callable[[], AbstractContextManager[Any]] = staticmethod(threading.RLock)

    def __init__(self, plan: EngineSpec, bins: int) -> None:
        self.trace = EventLog()
        self.epoch = 0
        self.bins = bins
        self._open = True
        self._call_lock = self._make_lock()
        self._initialized = False
        # Strings of recent epochs. Finding a string costs a tenth of adding it to a new dictionary.
        self._dictionary = ProcessStrings()
        self._late_views: set[str] = set()
        """Views that were installed after the start. ``install`` has returned their first rows, so step 1 does not."""
        self._use(plan, plan.checked_route())

    def _use(self, plan: EngineSpec, route: Route) -> None:
        self._spec, self._route, self._empty_engine = plan, route, route.engine

    # --- how messages travel ----------------------------------------------------

    @abstractmethod
    def _run(self, messages: list[BinMessage], kind: str, epoch: int) -> list[BinMessage]:
        """Run one micro-batch; returns the messages to the driver. Raises the error of a kernel that refuses a row."""

    def _raise_interrupt(self) -> None:  # noqa: B027
        """Raise the exception that interrupted a committed micro-batch; called once its messages are processed."""

    @abstractmethod
    def _heads(self) -> tables.Heads:
        """The heads of all bins after the last micro-batch."""

    @abstractmethod
    def _blobs(self, stage: int, part: str) -> list[bytes]:
        """The runs of one piece of state in all bins after the last micro-batch."""

    @abstractmethod
    def _rebuild(self, plan: EngineSpec, route: Route) -> list[BinMessage]:
        """Compute other views from the base tables; returns the messages to the driver."""

    # --- the protocol -----------------------------------------------------------

    @property
    def kind(self) -> str:
        """The strategy: full, shared or partial."""
        return self._spec.kind

    @property
    def join(self) -> str:
        """How joins are run: auto, linear or multi."""
        return self._spec.join

    @property
    def views(self) -> Mapping[str, View]:
        """View name -> view."""
        return self._empty_engine.views

    @property
    def catalog(self) -> Any:
        """The catalog of the views."""
        return self._empty_engine.catalog

    @one_at_a_time
    def step(self, inputs: EpochInput) -> dict[str, Changes]:
        """Apply one epoch; see `sharedstate_lite.engine.engine.Engine.step`."""
        self._check_open()
        try:
            deltas, messages = self._epoch(inputs)
            out = self._first_rows() + self._run(messages, "epoch", self.epoch + 1)
        except Error as error:
            self.trace.record("refused", self.kind, note=str(error)[:200])
            raise
        self._initialized = True
        self.epoch = self.trace.epoch = self.epoch + 1
        self.trace.record("epoch", self.kind, rows=sum(len(d.diffs) for d in deltas.values()))
        return {name: self._changes(name, out) for name in self.views}

    @one_at_a_time
    def read(self, view: str, key: Any = None, at: int | None = None) -> pd.DataFrame:
        """The rows of a view, or of one key; see `sharedstate_lite.engine.engine.Engine.read`."""
        self._check_open()
        shown = self._empty_engine._view(view)
        if at is not None and not (is_integer(at) and at == self.epoch):
            raise TimeError(
                f"view {view}: on Spark a read answers for the last epoch, {self.epoch}, not for {shorten(at)}; use "
                "sharedstate_lite.spark.state(checkpoint, operator, batch) to see earlier batches"
            )
        if self.epoch == 0:
            # The bins have received nothing yet. Only an aggregate without GROUP BY has a row.
            before: pd.DataFrame = self._empty_engine.read(view, key)
            return before
        strings = Dictionary()
        blob = b""
        if key is not None:
            words = view_rules.key_words(shown, key, strings)
            blob = wire.encode(list(words), [shown.schema[i].type for i in shown.key], strings)
            if not shown.key:
                blob = b""
        number = self._route.views.index(shown.name)
        asked = json.dumps({"view": shown.name})
        stage = self._route.reader_stage[number]
        messages = [BinMessage(stage, where, ASK, asked, blob) for where in range(self.bins)]
        out = self._run(messages, "read", self.epoch)
        return sorted_frame(shown, self._delta(shown, out, strings), strings)

    def state(self, operator: str | None = None) -> pd.DataFrame:
        """The state after the last micro-batch; see `sharedstate_lite.engine.engine.Engine.state`."""
        self._check_open()
        if operator is None:
            return tables.state_table(self._route, self._heads())
        stage, place = tables.find(self._route, operator)
        return tables.state_rows(place, self._blobs(stage, operator))

    @one_at_a_time
    def install(self, view: View) -> Changes:
        """Add a view and those it reads; returns its rows as Changes. Raises ViewError.

        All views are computed again from the base tables, because Spark refuses a new operator in an old checkpoint.
        """
        self._check_open()
        more = view_rules.views_to_install(view, self.views, self.catalog)
        return self._changes(view.name, self._change_views([*self.views.values(), *more]))

    @one_at_a_time
    def drop(self, view: str | View) -> None:
        """Remove a view and the state that only it needs. Raises ViewError if another view reads it."""
        self._check_open()
        removed = view_rules.view_to_drop(view, self.views, self.catalog)
        left = [v for v in self.views.values() if v is not removed]
        if not left:
            raise ViewError(
                f"view {removed.name} is the only one, and an engine on Spark needs one; call close() instead"
            )
        self._change_views(left)

    def _change_views(self, views: list[View]) -> list[BinMessage]:
        plan = EngineSpec(self.kind, views, self.join)
        route = plan.checked_route()
        before, names = self._late_views, {v.name for v in views}
        self._late_views = {name for name in names if name in before or name not in self.views}
        try:
            out = self._rebuild(plan, route)
        except BaseException:
            self._late_views = before
            raise
        self._use(plan, route)
        self._initialized = True
        return out

    @one_at_a_time
    def compact(self) -> None:
        """Merge the runs in all bins."""
        self._check_open()
        every = [
            BinMessage(stage, where, COMPACT, "", b"")
            for stage in range(1, self._route.stages + 1)
            for where in range(self.bins)
        ]
        self._run(every, "compaction", self.epoch)

    def evict(self, view: str, key: Any = None, n: int | None = None) -> dict[str, list[Any]]:
        """Raises ViewError: only partial state evicts."""
        return self._empty_engine.evict(view, key, n)

    def handle(self, at: int | None = None) -> Any:
        """Raises TimeError: on Spark earlier epochs are read from earlier micro-batches, not through a handle."""
        raise TimeError(
            f"handle({at}): {self.kind} state on Spark answers for the last epoch only; use "
            "sharedstate_lite.spark.state(checkpoint, operator, batch) to see earlier batches"
        )

    def filled(self, operator: str) -> list[tuple[Any, ...]]:
        """Raises ViewError: only partial state has holes."""
        raise ViewError(f"filled({operator!r}): {self.kind} state has no holes; every key is filled")

    def lookup(self, view: str, keys: Any) -> pd.DataFrame:
        """Raises ViewError: only partial state has lookups of several keys."""
        raise ViewError(f"lookup({view!r}): {self.kind} state has no holes, so every key is filled; use read")

    def arrangements(self) -> Any:
        """Raises ViewError: on Spark they are in the state store."""
        raise ViewError(
            "arrangements(): on Spark they are in the state store, not in this process; use state() or "
            "sharedstate_lite.spark.state(checkpoint, operator, batch)"
        )

    def _in_process(self, *_: Any) -> Any:
        """Raises ViewError: only the engine in process delivers messages one by one."""
        raise ViewError(
            "pause(), messages(), deliver(i) and resume() work in process only, because on Spark a micro-batch is the "
            "smallest step; use ss.engine('partial', ...)"
        )

    pause = messages = deliver = resume = _in_process

    def graph(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The operators and the edges between them, as two DataFrames."""
        self._check_open()
        return self._empty_engine.graph()

    def close(self) -> None:
        """Release everything. A second call does nothing."""
        self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _repr_html_(self) -> str:
        """The table of ``state()``, for a notebook."""
        if not self._open:
            return "<p>closed engine</p>"
        return state_html(f"{self.kind} engine on Spark, epoch {self.epoch}", self.state())

    def __repr__(self) -> str:
        return f"<{self.kind} engine over bins, epoch {self.epoch}, views: {', '.join(self.views)}>"

    # --- messages ---------------------------------------------------------------

    def _epoch(self, inputs: EpochInput) -> tuple[dict[str, Delta], list[BinMessage]]:
        """Check an epoch; returns its changes by relation, and the messages that bring them to the bins."""
        self._dictionary.collect()
        strings = self._dictionary.strings
        deltas = validate.epoch(inputs, self.catalog, strings)
        messages = [] if self._initialized else init_globals(self._route.global_stages())
        for relation, delta in deltas.items():
            messages += self._route.relation_messages(relation, delta, self.bins, strings, net=True)
        return deltas, messages

    def _first_rows(self) -> list[BinMessage]:
        """The first rows of views that step 1 must emit itself, if bins sent them when views changed before step 1."""
        if self.epoch or not self._initialized:
            return []
        engine, out = self._empty_engine, []
        for view in (v for v in self.views.values() if v.name not in self._late_views):
            blob = wire.pack(
                engine.view_rows(view, None, None), [c.type for c in view.schema], engine.dictionary.strings
            )
            out.append(BinMessage(0, 0, OUT, view.name, blob))
        return out

    def _delta(self, view: View, out: Sequence[BinMessage], strings: Dictionary) -> Delta:
        parts = [wire.unpack(m.blob, strings) for m in out if m.channel == OUT and m.what == view.name]
        return concat(parts, len(view.schema))

    def _changes(self, name: str, out: Sequence[BinMessage]) -> Changes:
        view, strings = self.views[name], Dictionary()
        unique = view.key if view.unique else None
        return Changes.consolidated(view.schema, self._delta(view, out, strings), self.epoch, strings, unique)

    # --- small services ---------------------------------------------------------

    def _check_open(self) -> None:
        if not self._open:
            raise Error("this engine is closed; create another one, or restore a checkpoint")
