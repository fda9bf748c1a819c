"""The description of an engine on Spark: its strategy, views and options, without rows.

An `EngineSpec` is sent to the workers, which build the engine of each bin from it. `write` stores the description in
the checkpoint's folder (`..rounds.home`), so that a restart and the state reader build the same engine.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...dataflow.dataflow import Dataflow
from ...dataflow.full import Full
from ...dataflow.operators import DeltaJoin
from ...engine.catalog_text import catalog_text, read_catalog
from ...errors import CheckpointError, Error, ViewError
from ...plan.nodes import digest
from ...plan.view import View
from ..rounds import home
from .route import Route, StatefulStages, Unplaceable
from .staged import Staged

STRATEGIES: dict[str, tuple[type[Dataflow], dict[str, str]]] = {
    "full": (Full, {"auto": "linear", "linear": "linear", "multi": "multi"}),
    "shared": (Staged, {"auto": "linear", "linear": "linear"}),
}
"""The strategies except partial state. Each has its class, and maps ``join`` to the value that this class expects."""

Placing = Callable[[Sequence[View], str, Mapping[str, Any]], StatefulStages]
"""(views, join, options) -> the stages of a partial engine. The room spark/partial provides this function."""


@dataclass(frozen=True)
class EngineSpec:
    """The description of an engine: its strategy (``kind``), views, join method and options."""

    kind: str
    views: Sequence[View]
    join: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the strategy: ``columns`` for full state; ``max_rows``, ``max_bytes``, ``seed`` and ``without`` for
    partial state."""
    place: Placing | None = None
    """For partial state, the function that assigns its operators to stages."""

    def route(self) -> Any:
        """Build an engine without rows, and return its `Route`, or its `Placement` for partial state."""
        if self.kind == "partial":
            assert self.place is not None
            return self.place(self.views, self.join, self.options)
        apart: set[str] = set()
        while True:
            engine = self._made(apart)
            for relation in engine.catalog.relations if engine.catalog is not None else ():
                # Even a relation that no view uses needs a base table, because a later view may use it.
                engine.base(relation)
            try:
                return Route(engine)
            except Unplaceable as error:
                nodes = [digest(engine.operators[n].node) for n in error.operators]
                odd = next((node for node in nodes if node not in apart), None)
                if odd is None:
                    names = ", ".join(v.name for v in self.views)
                    raise ViewError(
                        f"{names}: the operators of these views cannot be assigned to stages; run them in one process"
                    ) from None
                apart.add(odd)

    def _made(self, apart: set[str]) -> Dataflow:
        make, joins = STRATEGIES[self.kind]
        options = {"apart": frozenset(apart)} if make is Staged else self.options
        return make(self.views, join=joins[self.join], **options)

    def checked_route(self) -> Any:
        """Return the route. Raises ViewError if Spark cannot run the strategy, the join method or a view."""
        if self.kind == "partial":
            return self.route()
        if self.kind not in STRATEGIES:
            kinds = ", ".join([*STRATEGIES, "partial"])
            raise ViewError(f"engine {self.kind!r}: on Spark, the strategy must be one of {kinds}")
        joins = STRATEGIES[self.kind][1]
        if self.join not in joins:
            raise ViewError(
                f"join={self.join!r}: on Spark, the {self.kind} engine supports the join methods {', '.join(joins)}; "
                "each lookup of a delta join would need its own stage"
            )
        route = self.route()
        engine = route.engine
        if engine.catalog is None:
            raise ViewError("an engine on Spark needs views of a catalog; create them with catalog.view(...)")
        for operator in engine.operators:
            if isinstance(operator, DeltaJoin) and len({len(a.layout.key) for _, a in operator.owned}) > 1:
                raise ViewError(
                    f"{operator.name}: on Spark, join='multi' requires join keys with the same number of columns on "
                    "all sides, because matching rows must be in the same bin; use join='linear'"
                )
        return route


def write(folder: Path, engine: Dataflow, kind: str, options: dict[str, Any]) -> None:
    """Write the description of an engine into ``folder``, atomically."""
    home.write(folder, "views", {"kind": kind, **catalog_text(engine), "options": options})


def read_matching(where: Path, engine: Dataflow, spec: EngineSpec, wanted: dict[str, Any]) -> dict[str, Any] | None:
    """Return the description of an existing checkpoint, or None if the folder is empty.

    ``wanted`` contains other options that must match. Raises CheckpointError if the description does not match the
    arguments, and as `home.known` does.
    """
    description = home.known(where, "views")
    if description is not None:
        _check_same(description, engine, spec, wanted, where)
    return description


def new_options(spec: EngineSpec, bins: int, **more: Any) -> dict[str, Any]:
    """Return the options of a new generation, which gets a random name."""
    generation = f"g-{secrets.token_hex(6)}"
    options = {"join": spec.join, "strategy": dict(spec.options), "bins": bins}
    return options | {"generation": generation} | more


def parse(description: dict[str, Any], where: Path, place: Placing | None = None) -> EngineSpec:
    """Return the EngineSpec for what `write` stored. Raises CheckpointError if this version cannot interpret it."""
    try:
        options = description["options"]
        views = read_catalog(description)[1]
        return EngineSpec(description["kind"], views, options["join"], options["strategy"], place)
    except (Error, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{where}: this version of the kit cannot use the checkpoint ({error}); use the version that wrote it"
        ) from error


def _check_same(
    description: dict[str, Any], engine: Dataflow, spec: EngineSpec, options: dict[str, Any], where: Path
) -> None:
    """Raise CheckpointError, with the difference, if a checkpoint's views or options differ from the arguments.

    An option of the strategy that is None, 0 or empty was omitted, so it is not compared.
    """
    kind, mine = spec.kind, catalog_text(engine)
    theirs = {v["name"]: v for v in description["views"]}
    ours = {v["name"]: v for v in mine["views"]}
    odd = sorted(name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name))
    if odd:
        how = {(True, False): "was not passed", (False, True): "is not in it", (True, True): "has another definition"}
        difference = ", ".join(f"view {n} {how[n in theirs, n in ours]}" for n in odd)
    elif description["kind"] != kind:
        difference = f"it contains {description['kind']} state, not {kind} state"
    elif description["catalog"] != mine["catalog"]:
        difference = "its relations are declared differently"
    elif description["installed"] != mine["installed"]:
        difference = f"it was created with the views in the order {', '.join(description['installed'])}"
    elif "stream" in options and bool(description["options"].get("stream")) != bool(options["stream"]):
        owners = ("an engine", "a stream") if options["stream"] else ("a stream", "an engine")
        difference = "it was created by {}, not by {}".format(*owners)
    else:
        theirs = description["options"] | description["options"]["strategy"]
        options = {"join": spec.join, **{k: v for k, v in spec.options.items() if v}, **options}
        difference = ", ".join(f"it has {k}={theirs.get(k)!r}" for k in options if theirs.get(k) != options[k])
    if difference:
        raise CheckpointError(
            f"{where}: this checkpoint belongs to a different engine: {difference}. Pass the same views and options, "
            "or use a new folder"
        )
