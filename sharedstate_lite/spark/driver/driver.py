"""The driver's half of an engine that runs in bins: it turns calls into messages to the bins, and replies into results.

The driver checks an epoch and sends each row to the bins that need it. It does not store rows. It has `Rounds`, which
pass messages through the stages: a streaming query on Spark (`engine`), or rounds in this process, in tests. A read is
a message that passes through the same stages, so it returns the state after the last epoch.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import pandas as pd

from ...changelog import validate
from ...changelog.changes import Changes, sorted_frame
from ...engine import view_rules
from ...engine.engine import EpochInput
from ...engine.events import EventLog
from ...engine.state_tables import bill_table, state_html
from ...errors import Error, TimeError, ViewError, is_integer, shorten
from ...plan.view import View
from ...storage import wire
from ...storage.batch import Delta, concat
from ...storage.encoding import Dictionary
from ..bins import tables
from ..bins.channels import ASK, COMPACT, OUT, init_globals
from ..bins.engine_spec import EngineSpec
from ..bins.route import Route
from ..rounds.bin import Rounds
from ..rounds.inbox import RoundKind
from ..rounds.message import BinMessage
from ..rounds.strings import ProcessStrings

C = TypeVar("C", bound=Callable[..., Any])


def one_at_a_time(method: C) -> C:
    """Decorate a method so that calls from several threads run one at a time, under the driver's lock."""

    @wraps(method)
    def call(self: EngineDriver, *given: Any, **named: Any) -> Any:
        with self._call_lock:
            result = method(self, *given, **named)
            self._query.raise_interrupt()
            return result

    return cast(C, call)


class EngineDriver(ABC):
    """Implements the interface of `sharedstate_lite.engine.engine.Engine` with ``bins`` bins per stage.

    A context manager, which closes the engine.
    """

    _query: Rounds
    continued = ""
    """Where the engine continued: a checkpoint and its epoch, as text. Empty for a new engine."""

    def __init__(self, spec: EngineSpec, bins: int) -> None:
        self.trace = EventLog()
        self.epoch = 0
        self.bins = bins
        self._open = True
        self._call_lock = threading.RLock()
        self._initialized = False
        # The strings of recent epochs. Looking up a string takes a tenth of the time of adding it to a new dictionary.
        self._dictionary = ProcessStrings()
        self._late_views: set[str] = set()
        """The names of views that were installed after the engine was created.

        `install` has already returned their rows, so step 1 must not return them again.
        """
        self._use(spec, spec.checked_route())

    def _use(self, spec: EngineSpec, route: Route) -> None:
        self._spec, self._route, self._empty_engine = spec, route, route.engine

    # --- how messages travel ----------------------------------------------------

    def _run(
        self, messages: list[BinMessage] | Path, kind: RoundKind, epoch: int, about: dict[str, Any] | None = None
    ) -> list[BinMessage]:
        """Run one round and return its messages to the driver. If a kernel rejects a row, raise its error."""
        try:
            return self._query.run(messages, kind, epoch, about)
        except Error:
            # If another thread has closed the engine or stopped the session, report that instead.
            self._check_open()
            raise

    @abstractmethod
    def _rebuild(self, spec: EngineSpec, route: Route) -> list[BinMessage]:
        """Compute the views of ``spec`` from the base tables, and return the messages to the driver."""

    # --- the engine interface ---------------------------------------------------

    @property
    def kind(self) -> str:
        """The strategy: ``full``, ``shared`` or ``partial``."""
        return self._spec.kind

    @property
    def join(self) -> str:
        """The join method: ``auto``, ``linear`` or ``multi``."""
        return self._spec.join

    @property
    def views(self) -> Mapping[str, View]:
        """The installed views by name."""
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
            deltas, out = self._processed(inputs)
        except Error as error:
            self.trace.record("refused", self.kind, note=str(error)[:200])
            raise
        self.trace.record("epoch", self.kind, rows=sum(len(d.diffs) for d in deltas.values()))
        return {name: self._changes(name, out) for name in self.views}

    def _processed(self, inputs: EpochInput) -> tuple[dict[str, Delta], list[BinMessage]]:
        """Run an epoch. Returns the changes of the relations, and the messages to the driver."""
        deltas, messages = self._epoch(inputs)
        return deltas, self._first_rows() + self._run_epoch(messages)

    def _run_epoch(self, messages: list[BinMessage], about: dict[str, Any] | None = None) -> list[BinMessage]:
        """Run the round of the next epoch, and return its messages to the driver. ``about`` is logged with it."""
        first = [] if self._initialized else init_globals(self._route.global_stages())
        out = self._run(first + messages, RoundKind.EPOCH, self.epoch + 1, about)
        self._initialized = True
        self.epoch = self.trace.epoch = self.epoch + 1
        return out

    @one_at_a_time
    def read(self, view: str | View, key: Any = None, at: int | None = None) -> pd.DataFrame:
        """Return the rows of a view, or of one key; see `sharedstate_lite.engine.engine.Engine.read`."""
        self._check_open()
        shown = self._empty_engine._view(view)
        if at is not None and not (is_integer(at) and at == self.epoch):
            raise TimeError(
                f"view {shown.name}: on Spark, only the last epoch, {self.epoch}, can be read, not {shorten(at)}; "
                "to see earlier state, use sharedstate_lite.spark.state(checkpoint, operator, batch)"
            )
        if self.epoch == 0:
            # The bins have not received any rows yet. Only an aggregate without GROUP BY has a row.
            before: pd.DataFrame = self._empty_engine.read(view, key)
            return before
        strings, blob = Dictionary(), b""
        if key is not None:
            words, types = view_rules.key_words(shown, key, strings), [shown.schema[i].type for i in shown.key]
            blob = wire.encode(list(words), types, strings) if types else b""
        stage = self._route.reader_stage[self._route.views.index(shown.name)]
        messages = [BinMessage(stage, where, ASK, shown.name, blob) for where in range(self.bins)]
        out = self._run(messages, RoundKind.READ, self.epoch)
        return sorted_frame(shown, self._delta(shown, out, strings), strings)

    def state(self, operator: str | None = None) -> pd.DataFrame:
        """Return the state after the last micro-batch; see `sharedstate_lite.engine.engine.Engine.state`."""
        self._check_open()
        return tables.state(self._route, self._query, operator)

    def bill(self) -> pd.DataFrame:
        """Return the bill of the state on disk; see `sharedstate_lite.engine.engine.Engine.bill`."""
        return bill_table(self.state(), place="disk")

    @one_at_a_time
    def install(self, view: str | View) -> Changes:
        """Add a view and the views that it reads. Returns the view's rows as Changes. Raises ViewError.

        All views are recomputed from the base tables, because Spark does not accept a new operator in an existing
        checkpoint.
        """
        self._check_open()
        more = view_rules.views_to_install(view, self.views, self.catalog)
        return self._changes(more[-1].name, self._change_views([*self.views.values(), *more]))

    @one_at_a_time
    def drop(self, view: str | View) -> None:
        """Remove a view and the state that only it needs. Raises ViewError if another view reads it."""
        self._check_open()
        removed = view_rules.view_to_drop(view, self.views, self.catalog)
        left = [v for v in self.views.values() if v is not removed]
        if not left:
            raise ViewError(
                f"view {removed.name} cannot be dropped, because it is the engine's only view; call close() instead"
            )
        self._change_views(left)

    def _change_views(self, views: list[View]) -> list[BinMessage]:
        spec = replace(self._spec, views=views)
        route = spec.checked_route()
        before, names = self._late_views, {v.name for v in views}
        self._late_views = {name for name in names if name in before or name not in self.views}
        try:
            out = self._rebuild(spec, route)
        except BaseException:
            self._late_views = before
            raise
        self._use(spec, route)
        self._initialized = True
        return out

    @one_at_a_time
    def compact(self) -> None:
        """Merge the runs of each arrangement in all bins."""
        self._check_open()
        self._run([BinMessage(*place, COMPACT, "", b"") for place in self._places()], RoundKind.COMPACTION, self.epoch)

    def _places(self) -> list[tuple[int, int]]:
        """Return (stage, bin) of every bin."""
        return [(stage, number) for stage in range(1, self._route.stages + 1) for number in range(self.bins)]

    def evict(self, view: str | View, key: Any = None, n: int | None = None) -> dict[str, list[Any]]:
        """Raise ViewError, because only the partial engine can evict keys."""
        return self._empty_engine.evict(view, key, n)

    def handle(self, at: int | None = None) -> Any:
        """Raise TimeError, because on Spark, earlier epochs are read from earlier micro-batches, without a handle."""
        raise TimeError(
            f"handle({at}): on Spark, {self.kind} state can be read only at the last epoch; to see earlier state, use "
            "sharedstate_lite.spark.state(checkpoint, operator, batch)"
        )

    def filled(self, operator: str) -> list[tuple[Any, ...]]:
        """Raise ViewError, because only partial state has holes, which are keys that are not filled."""
        raise ViewError(f"filled({operator!r}): {self.kind} state does not have holes, because every key is filled")

    def lookup(self, view: str | View, keys: Any) -> pd.DataFrame:
        """Raise ViewError, because only the partial engine looks up several keys in one call."""
        raise ViewError(f"lookup(): only the partial engine has lookup(); a {self.kind} engine has read()")

    def arrangements(self) -> Any:
        """Raise ViewError, because on Spark, arrangements are in the state store and not in this process."""
        raise ViewError(
            "arrangements(): on Spark, arrangements are in the state store, not in this process; use state() or "
            "sharedstate_lite.spark.state(checkpoint, operator, batch)"
        )

    def _in_process(self, *_: Any) -> Any:
        """Raise ViewError, because only the in-process engine can deliver messages one at a time."""
        raise ViewError(
            "pause(), messages(), deliver(i) and resume() work only in process, because on Spark the smallest step is "
            "a micro-batch; use ss.engine('partial', ...)"
        )

    pause = messages = deliver = resume = _in_process

    def _no_reasons(self, *_: Any, **__: Any) -> Any:
        """Raise ViewError: an explanation needs all tables in one process."""
        raise ViewError(
            "why() and why_not() need the tables in one process; give the same rows to ss.engine('shared', views), or "
            "your files to the command sharedstate why"
        )

    why = why_not = _no_reasons

    def graph(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the operators, and the edges between them, as two DataFrames."""
        self._check_open()
        return self._empty_engine.graph()

    def close(self) -> None:
        """Close the engine and release its resources. Calling it again has no effect."""
        self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _repr_html_(self) -> str:
        """Return the table of ``state()`` as HTML, for a notebook."""
        if not self._open:
            return "<p>closed engine</p>"
        title, state = f"{self.kind} engine on Spark, epoch {self.epoch}{self._since()}", self.state()
        return state_html(title, bill_table(state, place="disk"), state)

    def __repr__(self) -> str:
        views = ", ".join(self.views)
        return f"<{self.kind} engine over bins, epoch {self.epoch}{self._since()}, views: {views}>"

    def _since(self) -> str:
        return f" (continued from {self.continued})" if self.continued else ""

    # --- messages ---------------------------------------------------------------

    def _epoch(self, inputs: EpochInput) -> tuple[dict[str, Delta], list[BinMessage]]:
        """Check an epoch. Returns its changes by relation, and the messages that carry them to the bins."""
        self._dictionary.collect()
        strings = self._dictionary.strings
        deltas = validate.epoch(inputs, self.catalog, strings)
        messages = []
        for relation, delta in deltas.items():
            messages += self._route.relation_messages(relation, delta, self.bins, strings, net=True)
        return deltas, messages

    def _first_rows(self) -> list[BinMessage]:
        """Return messages with the views' initial rows if step 1 must emit them itself, or an empty list.

        This is necessary if views were installed or dropped before step 1, because the bins have already sent the rows.
        """
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

    # --- checks -----------------------------------------------------------------

    def _check_open(self) -> None:
        if not self._open:
            raise Error("this engine is closed; create another one, or restore a checkpoint")
