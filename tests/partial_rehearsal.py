"""Partial state over bins without Spark: the engine, the bins and the base tables are the real ones, rounds are local.

The messages of a bin arrive in a random order, as on Spark, and two worker "processes" take turns (see `rehearsal`).
On Spark, one caller calls at a time. Here ``between`` is called between any two rounds, and an epoch can begin there
(`later`), so that rules 18, 20 and 22 are tested with every order of changes and responses.
"""

from __future__ import annotations

import pickle
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sharedstate_lite.changelog import validate
from sharedstate_lite.spark.bins import engine_spec
from sharedstate_lite.spark.bins.engine_spec import EngineSpec
from sharedstate_lite.spark.driver.driver import EngineDriver
from sharedstate_lite.spark.partial.base import BaseTables
from sharedstate_lite.spark.partial.bin import PartialRecipe
from sharedstate_lite.spark.partial.engine import PartialSparkEngine
from sharedstate_lite.spark.partial.placement import place
from sharedstate_lite.spark.rounds import home
from sharedstate_lite.spark.rounds.inbox import RoundKind
from sharedstate_lite.spark.rounds.local import LocalRounds
from sharedstate_lite.spark.rounds.message import BinMessage
from sharedstate_lite.storage.encoding import Dictionary


class RacedRounds(LocalRounds):
    """Local rounds that call ``between`` after each round; ``late`` are messages that are sent there."""

    between: Callable[[], None] | None = None
    late: Sequence[BinMessage] = ()

    def run(
        self, messages: Any, kind: RoundKind = RoundKind.EPOCH, epoch: int = 0, about: dict[str, Any] | None = None
    ) -> list[BinMessage]:
        sent = super().run(messages, kind, epoch, about)
        assert all(m.stage <= self.stages for m in sent)
        if self.between is not None:
            self.between()
        sent, self.late = [*sent, *self.late], ()
        return sent


class PartialRehearsal(PartialSparkEngine):
    """See the module."""

    made = 0
    rounds_class: type[LocalRounds] = RacedRounds
    _query: RacedRounds  # type: ignore[assignment]

    def __init__(self, views: Any, bins: int = 3, lose: int = 0, seed: int = 0, **options: Any) -> None:
        EngineDriver.__init__(self, EngineSpec("partial", views, "auto", options, place), bins)
        PartialRehearsal.made += 1
        recipe = PartialRecipe(f"partial rehearsal {PartialRehearsal.made}", bins, self._spec.route)
        made: Any = self.rounds_class(recipe, self._route.stages, lose, seed)
        self._query = made
        folder = tempfile.mkdtemp(prefix="base-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._begin(BaseTables(Path(folder), self.catalog.relations))
        self.lose, self.reads = lose, 0

    def checkpoint(self, path: Any) -> None:
        """Write the specification, the stores and the base tables, without the processes' memory, to a new folder."""
        self._check_open()
        path.mkdir()
        options = {"join": self.join, "bins": self.bins, "lose": self.lose, "strategy": self._spec.options}
        engine_spec.write(path, self._empty_engine, self.kind, options)
        (path / "stores").write_bytes(pickle.dumps((self.epoch, self._query.stores, self._base.files)))
        shutil.copytree(self._base.folder, path / "base")

    @classmethod
    def restore(cls, path: Path) -> PartialRehearsal:
        """The engine that was written to ``path``, in new processes, as after a crash: all keys are holes."""
        told = home.read(path, "views")
        spec, options = engine_spec.parse(told, path, place), told["options"]
        out = cls(spec.views, options["bins"], options["lose"], **spec.options)
        out.epoch, out._query.stores, out._base.files = pickle.loads((path / "stores").read_bytes())
        shutil.copytree(path / "base", out._base.folder, dirs_exist_ok=True)
        out._left = "forget"
        return out

    def close(self) -> None:
        """Close the engine."""
        EngineDriver.close(self)

    @property
    def between(self) -> Callable[[], None] | None:
        """What is called between two rounds."""
        return self._query.between

    @between.setter
    def between(self, act: Callable[[], None] | None) -> None:
        self._query.between = act

    def clear_count(self) -> None:
        """Set the counts of micro-batches and of answers of base tables to 0."""
        self.rounds = self.reads = 0

    def forget_processes(self) -> None:
        """Continue in new processes."""
        for each in self._query.workers:
            each.clear()

    def later(self, inputs: Any) -> None:
        """Run the first round of an epoch between two rounds of another call, which delivers its further messages."""
        strings, rounds = Dictionary(), self._query
        given = validate.epoch(inputs, self.catalog, strings)
        deltas = {r: self._net(r, d, strings) for r, d in given.items()}
        self._base.append(self.epoch + 1, deltas, strings)
        between, rounds.between = rounds.between, None
        rounds.late = rounds.run(self._changed(deltas, strings), RoundKind.EPOCH, self.epoch + 1)
        rounds.between = between
        self.epoch += 1

    def _check_open(self) -> None:
        EngineDriver._check_open(self)

    def _undo(self, epoch: int) -> None:
        self._base.take_back(epoch - 1)

    def _answered(self, message: BinMessage, number: int) -> BinMessage:
        self.reads += 1
        return super()._answered(message, number)


__all__ = ["PartialRehearsal", "RacedRounds"]
