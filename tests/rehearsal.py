"""The engine on Spark without Spark: the driver's half, the route and the bins are the real ones, the store is a dict.

A micro-batch takes milliseconds instead of seconds, so tests can draw sequences of them. After every ``lose`` bins the
other of two worker "processes" takes over, whose memory is empty or out of date. A checkpoint is the specification, as
Spark's engine writes it, and the content of the stores.
"""

from __future__ import annotations

import json
import pickle
import secrets
from collections import OrderedDict
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from sharedstate_lite.spark.bins import engine_spec, tables
from sharedstate_lite.spark.bins.bin import ViewRecipe
from sharedstate_lite.spark.bins.channels import init_globals
from sharedstate_lite.spark.bins.engine_spec import EngineSpec
from sharedstate_lite.spark.bins.route import Route
from sharedstate_lite.spark.driver.driver import EngineDriver
from sharedstate_lite.spark.rounds import home, worker
from sharedstate_lite.spark.rounds.inbox import RoundKind
from sharedstate_lite.spark.rounds.message import BinMessage


class Dict:
    """The state store of one bin; a micro-batch works on a copy."""

    def __init__(self) -> None:
        self.told: str | None = None
        self.runs: dict[tuple[str, str], bytes] = {}

    def copy(self) -> Dict:
        """A copy for one micro-batch."""
        out = Dict()
        out.told, out.runs = self.told, dict(self.runs)
        return out

    def head(self) -> str | None:
        """See `sharedstate_lite.spark.rounds.message.Store`."""
        return self.told

    def run(self, part: str, name: str) -> bytes:
        """See `sharedstate_lite.spark.rounds.message.Store`."""
        return self.runs[part, name]

    def write(self, head: str, fresh: Iterable[tuple[str, str, bytes]], gone: Iterable[tuple[str, str]]) -> None:
        """See `sharedstate_lite.spark.rounds.message.Store`."""
        self.told = head
        self.runs.update({(part, name): blob for part, name, blob in fresh})
        for each in gone:
            del self.runs[each]


class Workers:
    """Stores of all bins, and two worker "processes" that take turns, by a count of the bins that were run."""

    work: Any

    def _hire(self, lose: int) -> None:
        self.lose, self.count = lose, 0
        self.processes: list[OrderedDict[Any, Any]] = [OrderedDict(), OrderedDict()]
        self.stores: dict[tuple[int, int], Dict] = {}

    def _heads(self) -> Any:
        return {place: json.loads(store.told) for place, store in self.stores.items() if store.told is not None}

    def _blobs(self, stage: int, parts: Collection[str]) -> dict[str, list[bytes]]:
        every = [store.runs for (at, _), store in self.stores.items() if at == stage]
        return {part: [b for runs in every for (name, _), b in runs.items() if name == part] for part in parts}

    def _bin(self, stage: int, number: int, mine: list[BinMessage], store: Dict) -> list[BinMessage]:
        self.count += 1
        which = 0
        if self.lose:
            which = self.count // self.lose % 2
            if self.count % (self.lose * 3) == 0:
                self.processes[which].clear()
        worker._cached, before = self.processes[which], worker._cached
        try:
            return worker.run_bin(self.work, stage, number, mine, store)
        except Exception:
            self.work.salt = secrets.token_hex(16)  # a query is started again
            raise
        finally:
            self.processes[which], worker._cached = worker._cached, before


__all__ = ["Dict", "Rehearsal"]


class Rehearsal(Workers, EngineDriver):
    """See the module."""

    made = 0

    def __init__(self, kind: str, views: Any, join: str = "auto", bins: int = 3, lose: int = 0, **options: Any) -> None:
        super().__init__(EngineSpec(kind, views, join, options), bins)
        self._hire(lose)
        self._begin(self._spec)

    def checkpoint(self, path: Path) -> None:
        """Write the specification and the stores, without the processes' memory, to a new folder."""
        self._check_open()
        path.mkdir()
        options = {"join": self.join, "bins": self.bins, "lose": self.lose, "strategy": self._spec.options}
        engine_spec.write(path, self._empty_engine, self.kind, options)
        (path / "stores").write_bytes(pickle.dumps((self.epoch, self._initialized, self._late_views, self.stores)))

    @classmethod
    def restore(cls, path: Path) -> Rehearsal:
        """The engine that was written to ``path``, in new processes."""
        told = home.read(path, "views")
        plan = engine_spec.parse(told, path)
        out = cls(plan.kind, plan.views, plan.join, told["options"]["bins"], told["options"]["lose"], **plan.options)
        out.epoch, out._initialized, out._late_views, out.stores = pickle.loads((path / "stores").read_bytes())
        return out

    def _rebuild(self, plan: EngineSpec, route: Route) -> list[BinMessage]:
        messages = init_globals(route.global_stages())
        for name, (stage, place) in tables.bases(self._route).items():
            messages += tables.reload(place, self._blobs(stage, [name])[name], route, self.bins)
        self._begin(plan)
        self._route = route
        return self._run(messages, RoundKind.LOAD, self.epoch)

    def _begin(self, plan: EngineSpec) -> None:
        Rehearsal.made += 1
        self.work = ViewRecipe(f"rehearsal {Rehearsal.made}", self.bins, plan.route)
        self.stores = {}

    def _run(self, messages: list[BinMessage], kind: RoundKind, epoch: int) -> list[BinMessage]:
        stores = {place: store.copy() for place, store in self.stores.items()}
        for stage in range(1, self._route.stages + 1):
            mine = [m for m in messages if m.stage == stage]
            messages = [m for m in messages if m.stage != stage]
            for number in sorted({m.bin for m in mine}):
                store = stores.setdefault((stage, number), Dict())
                messages += self._bin(stage, number, [m for m in mine if m.bin == number], store)
        assert all(m.stage == 0 for m in messages)
        self.stores = stores
        return messages
