"""Full, shared and partial state: one SQL view, three ways to keep it up to date.

    import sharedstate_lite as ss
    catalog = ss.Catalog(info="product STRING, category STRING", visit="product STRING, user STRING, length INT")
    result = catalog.view("CREATE VIEW result AS SELECT category, MAX(length) AS max_length "
                          "FROM info JOIN visit USING (product) GROUP BY category")
    engine = ss.engine("shared", [result])
    engine.step({"info": [(("Apple", "Fruit"), +1)], "visit": [(("Apple", "Alice", 10), +1)]})
    engine.read("result")

The rooms, in the order in which to read them:

    words, batch, arrangement, merging   rows as sorted runs of machine words; the past, and letting go of it
    changes, columns, ingest, intake     what comes in and goes out
    plan, sql and its helpers, expr      SQL to a tree of operators
    kernels, aggregate, extremes, exact  joins and aggregates over deltas and arrangements, written once
    operators, dataflow, full, shared    the graph in which every operator sees every change
    wires, upquery, upreduce, upjoin, wiring, delivery, partial, holes, budget
                                         the graph in which questions travel too
    engine, held, checkpoint, trace      what the three have in common
    oracle                               the answer that each must equal, from elsewhere
    messages, recording, questions, branches; replay
                                         a run step by step, as data; messages in, recording out
    walk, inside, asking, measure        what notebooks call: epochs, arrangements and reads as tables; time
    postgres, spark                      a PostgreSQL server of one's own; the same engines at scale
    worker                               what the tasks of one host share: the immutable, and the owned
    usecases                             what sharing there buys: the same answers, one way after the other
    show, doctor, demo                   pictures; is this machine ready; a first look
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

try:
    from .changelog.changes import Changes
    from .dataflow.full import Full
    from .dataflow.shared import Shared
    from .engine import checkpoint as _checkpoint
    from .engine.engine import Engine
    from .errors import CheckpointError, Error, RelationError, RowError, SqlError, TimeError, ViewError
    from .partial.partial import Partial
    from .plan.view import View
    from .replay import Replay
    from .sql.catalog import Catalog

    KINDS: dict[str, type[Engine]] = {"full": Full, "shared": Shared, "partial": Partial}
    """Strategy name -> its engine."""
except ModuleNotFoundError as error:
    # The doctor lives in this package and has to be able to say which package is missing.
    _missing: ModuleNotFoundError | None = error
else:
    _missing = None

__version__ = "0.1.0"


def engine(kind: str, views: Sequence[View], **options: Any) -> Engine:
    """A new engine at epoch 0: ``kind`` is full, shared or partial.

    Options: ``join`` (full: linear, multi; shared: linear, delta; partial: linear; auto
    everywhere), and for partial ``max_rows``, ``max_bytes``, ``seed``, ``without``.
    Raises ViewError for a kind, view or option that cannot be.
    """
    if not isinstance(kind, str) or kind not in KINDS:
        raise ViewError(f"engine {kind!r}: the kinds of state are {', '.join(KINDS)}")
    known = {"join"} | ({"max_rows", "max_bytes", "seed", "without"} if kind == "partial" else set())
    unknown = [name for name in options if name not in known and name != "_like"]
    if unknown:
        raise ViewError(f"option {unknown[0]}: the {kind} engine takes {', '.join(sorted(known))}")
    return KINDS[kind](views, **options)


def restore(path: str | Path) -> Engine:
    """The engine that was written to ``path``."""
    return _checkpoint.read(path, engine)


def replay(kind: str, views: Any, **options: Any) -> Replay:
    return Replay(engine, kind, views, **options)


def __getattr__(name: str) -> Any:
    if _missing is not None and name in __all__:
        raise _missing
    # Spark and the others are there without being imported: the core runs without them.
    if name in ("postgres", "spark", "worker", "lessons", "show", "oracle"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "KINDS",
    "Catalog",
    "Changes",
    "CheckpointError",
    "Engine",
    "Error",
    "RelationError",
    "RowError",
    "SqlError",
    "TimeError",
    "View",
    "ViewError",
    "engine",
    "replay",
    "restore",
]
