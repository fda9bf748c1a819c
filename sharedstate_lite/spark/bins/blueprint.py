"""What an engine on Spark is made from, as text in a file and as an in-process engine without rows.

A :class:`Blueprint` travels to the workers, which build from it the engine of each bin;
:func:`write` and :func:`read` keep it beside a checkpoint, so that a restart, and whoever
looks at the state later, builds the same.
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
from .bin_placement import labels
from .route import Route, StatefulStages, Unplaceable
from .staged import Staged

FORMAT = 2
FILE = "engine.json"
STRATEGIES: dict[str, tuple[type[Dataflow], dict[str, str]]] = {
    "full": (Full, {"auto": "linear", "linear": "linear", "multi": "multi"}),
    "shared": (Staged, {"auto": "linear", "linear": "linear"}),
}
"""What runs on Spark: the strategy, and its ways to join with what they are in process."""

Placing = Callable[[Sequence[View], str, Mapping[str, Any]], StatefulStages]
"""(views, join, options) -> the stages of a partial engine; the room of partial state has it, which stands later."""


@dataclass(frozen=True)
class Blueprint:
    """A strategy, its views and its options."""

    kind: str
    views: Sequence[View]
    join: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of partial state: ``max_rows``, ``max_bytes``, ``seed``, ``without``."""
    place: Placing | None = None
    """Of partial state: the function that places its operators."""

    def routed(self) -> Any:
        """The engine and its route; of partial state its placement."""
        if self.kind == "partial":
            assert self.place is not None
            return self.place(self.views, self.join, self.options)
        apart: set[str] = set()
        while True:
            engine = self._made(apart)
            for relation in engine.catalog.relations if engine.catalog is not None else ():
                # A relation that no view uses is kept too, for the views that may come.
                engine.base(relation)
            try:
                return Route(engine)
            except Unplaceable as error:
                nodes = [digest(engine.operators[n].node) for n in error.operators]
                odd = next((node for node in nodes if node not in apart), None)
                if odd is None:
                    names = ", ".join(v.name for v in self.views)
                    raise ViewError(f"no stages can be found for {names}; run them in one process") from None
                apart.add(odd)

    def _made(self, apart: set[str]) -> Dataflow:
        make, joins = STRATEGIES[self.kind]
        options = {"apart": frozenset(apart)} if make is Staged else {}
        return make(self.views, join=joins[self.join], **options)

    def checked(self) -> Any:
        """The route, for the driver. Raises ViewError for what cannot be, here or at all."""
        if self.kind == "partial":
            return self.routed()
        if self.kind not in STRATEGIES:
            kinds = ", ".join([*STRATEGIES, "partial"])
            raise ViewError(f"engine {self.kind!r}: on Spark the kinds of state are {kinds}")
        joins = STRATEGIES[self.kind][1]
        if self.join not in joins:
            raise ViewError(
                f"join={self.join!r}: on Spark the {self.kind} engine joins {', '.join(joins)}; "
                "each look-up of a delta join would be a stage of its own"
            )
        route = self.routed()
        engine = route.engine
        if engine.catalog is None:
            raise ViewError("an engine on Spark needs views of a catalog; make them with catalog.view(...)")
        for operator in engine.operators:
            if isinstance(operator, DeltaJoin) and len({len(a.layout.key) for _, a in operator.owned}) > 1:
                raise ViewError(
                    f"{operator.name}: on Spark join='multi' needs keys of as many columns on all sides, so that rows "
                    "that meet are in one bin; use join='linear'"
                )
        return route


def write(folder: Path, engine: Dataflow, kind: str, options: dict[str, Any]) -> None:
    """Put the blueprint into ``folder``, whole or not at all."""
    put(folder, {"format": FORMAT, "kind": kind, **catalog_text(engine), "options": options})


def put(folder: Path, told: dict[str, Any]) -> None:
    """The same with what :func:`read` gave, changed."""
    unfinished = folder / f".{FILE}"
    with unfinished.open("w") as file:
        json.dump(told, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(folder / FILE)


def read(folder: Path) -> dict[str, Any]:
    """What :func:`write` put there. Raises CheckpointError where there is none, or none of this format."""
    file = folder / FILE
    try:
        found = json.loads(file.read_text())
    except FileNotFoundError as error:
        raise CheckpointError(f"{folder} is no checkpoint of an engine on Spark: it has no {FILE}") from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file} cannot be read ({error}); use another checkpoint") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise CheckpointError(f"{file} is not of format {FORMAT}; restore it with the kit that wrote it")
    return found


def found(where: Path, engine: Dataflow, kind: str, wanted: dict[str, Any], what: str) -> dict[str, Any] | None:
    """What a location says of itself, a checkpoint of ``what`` it should be; None where it is new.

    Raises CheckpointError, as :func:`read` and :func:`same` do, and where something else is there.
    """
    if (where / FILE).exists():
        told = read(where)
        same(told, engine, kind, wanted, where)
        return told
    if any(not f.name.startswith(".") for f in where.iterdir()):
        raise CheckpointError(f"{where} is neither empty nor the checkpoint of {what}; choose a new folder")
    return None


def fresh(where: Path, join: str, bins: int, **more: Any) -> dict[str, Any]:
    """The options of a location that begins now, with a generation of its own."""
    generation = f"g-{secrets.token_hex(6)}"
    options = {"join": join, "bins": bins, "labels": labels(bins), "generation": generation, "home": str(where)}
    return options | more


def built(told: dict[str, Any], where: Path, place: Placing | None = None) -> Blueprint:
    """The blueprint that a file describes. Raises CheckpointError."""
    try:
        return Blueprint(
            told["kind"], read_catalog(told)[1], told["options"]["join"], told["options"].get("partial", {}), place
        )
    except (Error, KeyError, TypeError) as error:
        raise CheckpointError(f"{where}: it does not fit this version of the kit ({error})") from error


def same(told: dict[str, Any], engine: Dataflow, kind: str, options: dict[str, Any], where: Path) -> None:
    """Refuse a checkpoint that other views, or other options, have written; names what differs."""
    mine: dict[str, Any] = {"kind": kind, **catalog_text(engine)}
    theirs = {v["name"]: v for v in told["views"]}
    ours = {v["name"]: v for v in mine["views"]}
    odd = sorted(name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name))
    if odd:
        how = {(True, False): "is not asked for", (False, True): "is not in it", (True, True): "differs in it"}
        said = ", ".join(f"view {n} {how[n in theirs, n in ours]}" for n in odd)
    elif told["kind"] != kind:
        said = f"it holds {told['kind']} state, not {kind}"
    elif told["catalog"] != mine["catalog"]:
        said = "its relations are declared otherwise"
    elif told["installed"] != mine["installed"]:
        said = f"it was made with the views {', '.join(told['installed'])} in this order"
    elif "stream" in options and bool(told["options"].get("stream")) != bool(options["stream"]):
        said = "it is an engine's, not a stream's" if options["stream"] else "it is a stream's, not an engine's"
    else:
        said = ", ".join(
            f"{k} is {told['options'].get(k)!r} in it" for k in options if told["options"].get(k) != options[k]
        )
    if said:
        raise CheckpointError(
            f"{where}: this checkpoint is of another engine: {said}; go on with it as it is, or choose a new folder"
        )
