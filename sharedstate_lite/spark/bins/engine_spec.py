"""The description of an engine on Spark: its strategy, views and options, without rows.

A `EngineSpec` travels to the workers, which build the engine of each bin from it. `write` and `read` keep it beside a
checkpoint, so that a restart and the state reader build the same engine.
"""

from __future__ import annotations

import json
import os
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
from .bin_placement import grouping_keys
from .route import Route, StatefulStages, Unplaceable
from .staged import Staged

FORMAT = 2
FILE = "engine.json"
STRATEGIES: dict[str, tuple[type[Dataflow], dict[str, str]]] = {
    "full": (Full, {"auto": "linear", "linear": "linear", "multi": "multi"}),
    "shared": (Staged, {"auto": "linear", "linear": "linear"}),
}
"""The strategies on Spark, each with its values of ``join`` and what they mean in process."""

Placing = Callable[[Sequence[View], str, Mapping[str, Any]], StatefulStages]
"""(views, join, options) -> the stages of a partial engine. spark/partial, a later room, passes it in."""


@dataclass(frozen=True)
class EngineSpec:
    """A strategy, its views and its options."""

    kind: str
    views: Sequence[View]
    join: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of partial state: ``max_rows``, ``max_bytes``, ``seed``, ``without``."""
    place: Placing | None = None
    """Of partial state: the function that places its operators."""

    def route(self) -> Any:
        """The route of an engine without rows; for partial state its placement."""
        if self.kind == "partial":
            assert self.place is not None
            return self.place(self.views, self.join, self.options)
        apart: set[str] = set()
        while True:
            engine = self._made(apart)
            for relation in engine.catalog.relations if engine.catalog is not None else ():
                # A relation that no view uses needs a base table too, because a later view may use it.
                engine.base(relation)
            try:
                return Route(engine)
            except Unplaceable as error:
                nodes = [digest(engine.operators[n].node) for n in error.operators]
                odd = next((node for node in nodes if node not in apart), None)
                if odd is None:
                    names = ", ".join(v.name for v in self.views)
                    raise ViewError(
                        f"{names}: these views cannot be placed in stages; run them in one process"
                    ) from None
                apart.add(odd)

    def _made(self, apart: set[str]) -> Dataflow:
        make, joins = STRATEGIES[self.kind]
        options = {"apart": frozenset(apart)} if make is Staged else {}
        return make(self.views, join=joins[self.join], **options)

    def checked_route(self) -> Any:
        """The route. Raises ViewError for a strategy, join or view that Spark cannot run."""
        if self.kind == "partial":
            return self.route()
        if self.kind not in STRATEGIES:
            kinds = ", ".join([*STRATEGIES, "partial"])
            raise ViewError(f"engine {self.kind!r}: on Spark the kinds of state are {kinds}")
        joins = STRATEGIES[self.kind][1]
        if self.join not in joins:
            raise ViewError(
                f"join={self.join!r}: on Spark the {self.kind} engine joins {', '.join(joins)}; "
                "each lookup of a delta join would need a stage of its own"
            )
        route = self.route()
        engine = route.engine
        if engine.catalog is None:
            raise ViewError("an engine on Spark needs views of a catalog; create them with catalog.view(...)")
        for operator in engine.operators:
            if isinstance(operator, DeltaJoin) and len({len(a.layout.key) for _, a in operator.owned}) > 1:
                raise ViewError(
                    f"{operator.name}: on Spark join='multi' needs keys with as many columns on all sides, because "
                    "rows that match must be in one bin; use join='linear'"
                )
        return route


def write(folder: Path, engine: Dataflow, kind: str, options: dict[str, Any]) -> None:
    """Write the description of an engine into ``folder``, atomically."""
    replace(folder, {"format": FORMAT, "kind": kind, **catalog_text(engine), "options": options})


def replace(folder: Path, description: dict[str, Any]) -> None:
    """Write a changed description, as `read` returns it, atomically."""
    unfinished = folder / f".{FILE}"
    with unfinished.open("w") as file:
        json.dump(description, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(folder / FILE)


def read(folder: Path) -> dict[str, Any]:
    """The description in ``folder``. Raises CheckpointError if there is none, or if its format is another one."""
    file = folder / FILE
    try:
        found = json.loads(file.read_text())
    except FileNotFoundError as error:
        raise CheckpointError(f"{folder} is not a checkpoint of an engine on Spark: it has no {FILE}") from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file} cannot be read ({error}); use another checkpoint") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise CheckpointError(f"{file} does not have format {FORMAT}; restore it with the version that wrote it")
    return found


def read_matching(where: Path, engine: Dataflow, kind: str, wanted: dict[str, Any], what: str) -> dict[str, Any] | None:
    """The description of an existing location, which must match the arguments; None for an empty folder.

    Raises CheckpointError if it does not match, and if the folder contains something else than ``what``.
    """
    if (where / FILE).exists():
        description = read(where)
        _check_same(description, engine, kind, wanted, where)
        return description
    if any(not f.name.startswith(".") for f in where.iterdir()):
        raise CheckpointError(f"{where} is neither empty nor the checkpoint of {what}; use a new folder")
    return None


def new_options(where: Path, join: str, bins: int, **more: Any) -> dict[str, Any]:
    """The options of a new location, with a random generation."""
    generation = f"g-{secrets.token_hex(6)}"
    options = {"join": join, "bins": bins, "labels": grouping_keys(bins), "generation": generation, "home": str(where)}
    return options | more


def parse(description: dict[str, Any], where: Path, place: Placing | None = None) -> EngineSpec:
    """The specification that a description holds. Raises CheckpointError."""
    try:
        options = description["options"]
        partial = options.get("partial", {})
        return EngineSpec(description["kind"], read_catalog(description)[1], options["join"], partial, place)
    except (Error, KeyError, TypeError) as error:
        raise CheckpointError(f"{where}: the checkpoint does not fit this version of the kit ({error})") from error


def _check_same(description: dict[str, Any], engine: Dataflow, kind: str, options: dict[str, Any], where: Path) -> None:
    """Raise CheckpointError, naming the difference, if a checkpoint has other views or options."""
    mine: dict[str, Any] = {"kind": kind, **catalog_text(engine)}
    theirs = {v["name"]: v for v in description["views"]}
    ours = {v["name"]: v for v in mine["views"]}
    odd = sorted(name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name))
    if odd:
        how = {(True, False): "is missing here", (False, True): "is not in it", (True, True): "differs"}
        difference = ", ".join(f"view {n} {how[n in theirs, n in ours]}" for n in odd)
    elif description["kind"] != kind:
        difference = f"it holds {description['kind']} state, not {kind}"
    elif description["catalog"] != mine["catalog"]:
        difference = "its relations are declared differently"
    elif description["installed"] != mine["installed"]:
        difference = f"it was made with the views {', '.join(description['installed'])} in this order"
    elif "stream" in options and bool(description["options"].get("stream")) != bool(options["stream"]):
        difference = "it is an engine's, not a stream's" if options["stream"] else "it is a stream's, not an engine's"
    else:
        theirs = description["options"]
        difference = ", ".join(f"{k} is {theirs.get(k)!r} in it" for k in options if theirs.get(k) != options[k])
    if difference:
        raise CheckpointError(
            f"{where}: this checkpoint belongs to another engine: {difference}; continue with the same views and "
            "options, or use a new folder"
        )
