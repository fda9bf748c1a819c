"""Full, shared and partial state: one SQL view, kept up to date under three strategies.

A *view* is a SQL query over declared relations. An *engine* keeps its answer up to date while rows are inserted and
deleted. The engines differ in the state that they store; their answers are equal.

>>> import sharedstate_lite as ss
>>> catalog = ss.Catalog(info="product STRING, category STRING", visit="product STRING, user STRING, length INT")
>>> longest = catalog.view('''CREATE VIEW longest AS SELECT category, MAX(length) AS top
...                           FROM info JOIN visit USING (product) GROUP BY category''')
>>> engine = ss.engine("shared", [longest])
>>> changes = engine.step({"info": [(("Potato", "Vegetable"), +1)], "visit": [(("Potato", "Eve", 60), +1)]})
>>> print(engine.read("longest", key="Vegetable").values.tolist())
[['Vegetable', 60]]

Rooms, in the order in which they may import one another (docs/architecture.md describes each):

    errors, system, plan, storage, kernels, sql, changelog, engine, dataflow, partial, oracle    the helper library
    replay, show                    runs as data; charts and the stepper
    postgres, spark, worker         a database server; engines on Spark; state shared by the tasks of one host
    doctor                          checks of this machine, and JupyterLab
    lessons                         what several notebooks call

To read the library, start with ``storage`` and ``kernels``, then ``dataflow``, then ``partial``.
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
    # The doctor is part of this package, and must be able to report the package that is missing.
    _missing: ModuleNotFoundError | None = error
else:
    _missing = None

__version__ = "0.1.0"


def engine(kind: str, views: Sequence[View], **options: Any) -> Engine:
    """Return a new engine at epoch 0. ``kind`` is "full", "shared" or "partial".

    Options: ``join`` is "auto", "linear", "multi" (full state only) or "delta" (shared state only). Partial state also
    takes ``max_rows`` or ``max_bytes`` (a limit on its own state), ``seed`` (for the choice of what to evict) and
    ``without`` (names of fixes to switch off, for lessons). Raises ViewError for an unknown kind or option, and for a
    view that the strategy cannot keep.
    """
    if not isinstance(kind, str) or kind not in KINDS:
        raise ViewError(f"engine {kind!r}: the kinds of state are {', '.join(KINDS)}")
    known = {"join"} | ({"max_rows", "max_bytes", "seed", "without"} if kind == "partial" else set())
    unknown = [name for name in options if name not in known and name != "_like"]
    if unknown:
        raise ViewError(f"option {unknown[0]}: the {kind} engine takes {', '.join(sorted(known))}")
    return KINDS[kind](views, **options)


def restore(path: str | Path) -> Engine:
    """Return the engine that ``engine.checkpoint(path)`` wrote, at its epoch.

    Raises CheckpointError if a file is missing or altered, or was written by another version.
    """
    return _checkpoint.read(path, engine)


def replay(kind: str, views: View | Sequence[View], **options: Any) -> Replay:
    """Return a recorder of runs of ``engine(kind, views, **options)``; see :class:`~.replay.play.Replay`."""
    return Replay(engine, kind, views, **options)


def __getattr__(name: str) -> Any:
    if _missing is not None and name in __all__:
        raise _missing
    # Imported on first use: the helper library runs without Spark, PostgreSQL and plotly.
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
