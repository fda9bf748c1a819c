"""An engine on Spark: the protocol of the in-process engines over one streaming query.

The driver reads an epoch in, checks its types, and sends each row to the bins that want
it; it keeps none. Base tables, operators' state and the rows of the views are in Spark's
state store, spread over bins. A read is a message through the same stream, so it
answers for the epoch before it and no other.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from .. import intake
from ..batch import Delta, concat
from ..cache import cache_dir
from ..changes import Changes, sorted_frame
from ..engine import Input
from ..errors import CheckpointError, Error, TimeError, ViewError
from ..operators import apply
from ..plan import View
from ..trace import Trace
from ..words import Strings
from . import blueprint, wire
from .bins import ASK, COMPACT, OUT, TICK, Message, Plan, ship
from .blueprint import Blueprint
from .query import Query
from .route import Route
from .scratch import Scratch, lock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BINS = 4
"""Bins a stage: what is routed, kept and moved as one."""


class SparkEngine:
    """See the module; made by :func:`sharedstate_lite.spark.engine` and ``restore``. A context manager."""

    def __init__(
        self, plan: Blueprint, session: SparkSession, checkpoint: str | os.PathLike[str] | None, bins: int | None
    ) -> None:
        if bins is not None and (isinstance(bins, bool) or not isinstance(bins, int) or bins < 1):
            raise ViewError(f"bins={bins!r}: it is a whole number from 1; {BINS} suits two cores")
        self._blueprint = plan.checked()
        self.kind, self.join = plan.kind, plan.join
        self.trace = Trace()
        self.session = session
        self._route = Route(self._blueprint)
        self._scratch = None if checkpoint is not None else Scratch(cache_dir("spark"), "engine-")
        self.location = Path(checkpoint).expanduser() if checkpoint is not None else self._scratch.path  # type: ignore[union-attr]
        self._lock = -1
        self._open = True
        try:
            options = self._options(plan, bins)
            self.bins: int = options["bins"]
            work = Plan(options["generation"], self.bins, plan)
            labels = _labels(session, self.bins)
            self._label = {number: key for key, number in labels.items()}
            self._query = Query(
                session, self.location / options["generation"], work, self._route.stages, labels, options["began"]
            )
            self._query.start()
        except BaseException:
            self._release()
            raise
        self.epoch = self.trace.epoch = self._query.inbox.epoch

    def _options(self, plan: Blueprint, bins: int | None) -> dict[str, Any]:
        """What the location says of itself, or is told now if it is new."""
        where = self.location
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
            "bins": bins or BINS,
            "generation": f"g-{secrets.token_hex(6)}",
            "began": int(time.time()),
        }
        blueprint.write(where, self._blueprint, plan.kind, options)
        return options

    # --- the protocol -----------------------------------------------------------

    @property
    def views(self) -> Mapping[str, View]:
        """View name -> view."""
        return self._blueprint.views

    @property
    def catalog(self) -> Any:
        """The catalog of the views."""
        return self._blueprint.catalog

    def step(self, inputs: Input) -> dict[str, Changes]:
        """Apply one epoch; see :meth:`~sharedstate_lite.engine.Engine.step`."""
        self._check_open()
        strings = Strings()
        try:
            deltas = intake.epoch(inputs, self.catalog, strings)
            messages = list(self._messages(deltas, strings))
            if self.epoch == 0:
                messages += self._ticks()
            out = self._query.run(self._labelled(messages), "epoch", self.epoch + 1)
        except Error as error:
            self.trace.record("refused", self.kind, note=str(error)[:200])
            raise
        self.epoch = self.trace.epoch = self.epoch + 1
        self.trace.record("epoch", self.kind, rows=sum(len(d.diffs) for d in deltas.values()))
        return {name: self._changes(name, out) for name in self.views}

    def read(self, view: str, key: Any = None, at: int | None = None) -> pd.DataFrame:
        """The rows of a view, or of one key; see :meth:`~sharedstate_lite.engine.Engine.read`."""
        self._check_open()
        shown = self._blueprint._view(view)
        if at is not None and at != self.epoch:
            raise TimeError(
                f"view {view}: on Spark a read answers for the last epoch, {self.epoch}, not for {at}; "
                "sharedstate_lite.spark.state(checkpoint, operator, batch) shows earlier batches"
            )
        strings = Strings()
        blob = b""
        if key is not None:
            words = intake.key_words(shown, key, strings)
            blob = wire.encode(list(words), [shown.schema[i].type for i in shown.key], strings)
            if not shown.key:
                blob = b""
        number = self._route.views.index(shown.name)
        asked = json.dumps({"view": shown.name})
        stage = self._route.reader_stage[number]
        messages = [Message(stage, where, ASK, asked, blob) for where in range(self.bins)]
        out = self._query.run(self._labelled(messages), "read", self.epoch)
        return sorted_frame(shown.schema, self._delta(shown, out, strings), strings)

    def compact(self) -> None:
        """Merge all runs of all bins."""
        self._check_open()
        every = [
            Message(stage, where, COMPACT, "", b"")
            for stage in range(1, self._route.stages + 1)
            for where in range(self.bins)
        ]
        self._query.run(self._labelled(every), "compaction", self.epoch)

    def evict(self, view: str, key: Any = None, n: int | None = None) -> dict[str, list[Any]]:
        """Only partial state can; raises ViewError."""
        return self._blueprint.evict(view, key, n)

    def handle(self, at: int | None = None) -> Any:
        """Raises TimeError: the past is kept by Spark's batches, not by handles."""
        raise TimeError(
            f"handle({at}): {self.kind} state on Spark answers for the last epoch only; "
            "sharedstate_lite.spark.state(checkpoint, operator, batch) shows earlier batches"
        )

    def graph(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The operators and the edges between them, as two frames."""
        self._check_open()
        return self._blueprint.graph()

    def close(self) -> None:
        """Stop the query; a temporary checkpoint goes with it. A second call does nothing."""
        if self._open:
            self._open = False
            self._query.stop()
            self._release()

    def __enter__(self) -> SparkEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self.kind} engine on Spark, epoch {self.epoch}, views: {', '.join(self.views)}>"

    # --- messages ---------------------------------------------------------------

    def _messages(self, deltas: Mapping[str, Delta], strings: Strings) -> Iterable[Message]:
        for number, channel in enumerate(self._route.channels, 1):
            relation = self._route.relation(channel)
            if relation is None or relation not in deltas:
                continue
            delta = deltas[relation]
            for at in channel.early:
                delta = apply(self._route.operators[at].node, delta, strings)
            yield from ship(number, channel, delta, self.bins, strings, net=True)

    def _ticks(self) -> list[Message]:
        """What makes aggregates without GROUP BY give their first row."""
        stages = sorted({self._route.stage_of[n] for n in self._route.globals()})
        return [Message(stage, 0, TICK, "", b"") for stage in stages]

    def _labelled(self, messages: Iterable[Message]) -> list[Message]:
        return [m._replace(bin=self._label[m.bin]) for m in messages]

    def _delta(self, view: View, out: Sequence[Message], strings: Strings) -> Delta:
        parts = [wire.unpack(m.blob, strings) for m in out if m.channel == OUT and m.what == view.name]
        return concat(parts, len(view.schema))

    def _changes(self, name: str, out: Sequence[Message]) -> Changes:
        view, strings = self.views[name], Strings()
        unique = view.key if view.unique else None
        return Changes.consolidated(view.schema, self._delta(view, out, strings), self.epoch, strings, unique)

    # --- small services ---------------------------------------------------------

    def _check_open(self) -> None:
        if not self._open:
            raise Error("this engine is closed; make a new one, or restore a checkpoint")

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
