"""The engine on Spark without Spark: the driver's half, the route and the bins are the real ones, rounds are local.

A micro-batch takes milliseconds instead of seconds, so tests can draw sequences of them. After every ``lose`` bins the
other of two worker "processes" takes over, whose memory is empty or out of date. A checkpoint is the specification, as
Spark's engine writes it, and the content of the stores.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from sharedstate_lite.spark.bins import engine_spec, tables
from sharedstate_lite.spark.bins.bin import ViewRecipe
from sharedstate_lite.spark.bins.channels import init_globals
from sharedstate_lite.spark.bins.engine_spec import EngineSpec
from sharedstate_lite.spark.bins.route import Route
from sharedstate_lite.spark.driver.driver import EngineDriver
from sharedstate_lite.spark.rounds import home
from sharedstate_lite.spark.rounds.inbox import RoundKind
from sharedstate_lite.spark.rounds.local import LocalRounds
from sharedstate_lite.spark.rounds.message import BinMessage


class Rehearsal(EngineDriver):
    """See the module."""

    made = 0
    rounds_class = LocalRounds
    _query: LocalRounds

    def __init__(self, kind: str, views: Any, join: str = "auto", bins: int = 3, lose: int = 0, **options: Any) -> None:
        super().__init__(EngineSpec(kind, views, join, options), bins)
        self.lose = lose
        self._begin(self._spec, self._route)

    def checkpoint(self, path: Path) -> None:
        """Write the specification and the stores, without the processes' memory, to a new folder."""
        self._check_open()
        path.mkdir()
        options = {"join": self.join, "bins": self.bins, "lose": self.lose, "strategy": self._spec.options}
        engine_spec.write(path, self._empty_engine, self.kind, options)
        kept = self.epoch, self._initialized, self._late_views, self._query.stores
        (path / "stores").write_bytes(pickle.dumps(kept))

    @classmethod
    def restore(cls, path: Path) -> Rehearsal:
        """The engine that was written to ``path``, in new processes."""
        told = home.read(path, "views")
        spec = engine_spec.parse(told, path)
        out = cls(spec.kind, spec.views, spec.join, told["options"]["bins"], told["options"]["lose"], **spec.options)
        out.epoch, out._initialized, out._late_views, out._query.stores = pickle.loads((path / "stores").read_bytes())
        return out

    def _rebuild(self, spec: EngineSpec, route: Route) -> list[BinMessage]:
        messages = init_globals(route.global_stages())
        for name, (stage, place) in tables.bases(self._route).items():
            messages += tables.reload(place, self._query.blobs(stage, [name])[name], route, self.bins)
        self._begin(spec, route)
        return self._run(messages, RoundKind.LOAD, self.epoch)

    def _begin(self, spec: EngineSpec, route: Route) -> None:
        Rehearsal.made += 1
        recipe = ViewRecipe(f"rehearsal {Rehearsal.made}", self.bins, spec.route)
        self._query = self.rounds_class(recipe, route.stages, self.lose)


__all__ = ["Rehearsal"]
