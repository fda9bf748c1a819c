"""Keeps one SQL view up to date under three state strategies: full, shared and partial state.

A *view* is a SQL query over declared relations. An *engine* keeps the view's answer up to date while rows are inserted
and deleted. All engines return the same answers, but they store different state.

>>> import sharedstate_lite as ss
>>> catalog = ss.Catalog(info="product STRING, category STRING", visit="product STRING, user STRING, length INT")
>>> longest = catalog.view('''CREATE VIEW longest AS SELECT category, MAX(length) AS top
...                           FROM info JOIN visit USING (product) GROUP BY category''')
>>> engine = ss.engine("shared", [longest])
>>> changes = engine.step({"info": [(("Potato", "Vegetable"), +1)], "visit": [(("Potato", "Eve", 60), +1)]})
>>> print(engine.read("longest", key="Vegetable").values.tolist())
[['Vegetable', 60]]

The package consists of rooms. Each room imports only from rooms before it in this list (see docs/architecture.md):

    errors, system, plan, loops, storage, kernels, sql, changelog, why, engine, dataflow, partial, oracle    the helper
                                    library
    replay, show                    recordings of runs; charts and the stepper
    postgres, spark                 a database server; engines on Spark
    own                             commands over a user's own SQL and files
    managed                         state that operators declare: checkpointed, rescaled and queried
    entities                        Python classes as operators: their methods split, their state managed
    worker                          state shared by the tasks on one host
    doctor                          checks of this machine; starting and stopping JupyterLab
    lessons                         functions that several notebooks call

To read the code, start with ``storage`` and ``kernels``, and continue with ``dataflow`` and ``partial``.
"""

from __future__ import annotations

import builtins
import difflib
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
    from .errors import CheckpointError, Error, RelationError, RowError, SqlError, StateError, TimeError, ViewError
    from .partial.partial import Partial
    from .plan.view import View
    from .replay import Replay
    from .sql.catalog import Catalog
    from .system.notes import show_notes

    KINDS: dict[str, type[Engine]] = {"full": Full, "shared": Shared, "partial": Partial}
    """Maps the name of each strategy to its engine class."""
except ModuleNotFoundError as error:
    # Do not raise here: the doctor is part of this package, and it has to report the dependency that is missing.
    _missing: ModuleNotFoundError | None = error
else:
    _missing = None
    if hasattr(builtins, "__IPYTHON__"):  # in a notebook
        show_notes()

__version__ = "0.1.0"


def engine(kind: str, views: Sequence[View], **options: Any) -> Engine:
    """Return a new engine for ``views`` at epoch 0. ``kind`` is "full", "shared" or "partial".

    All engines accept the option ``join``: "auto", "linear", "multi" (only full state) or "delta" (only shared state).
    Full state also accepts ``columns``: "used" (default: joins store only the columns that the view reads) or "all".
    Partial state also accepts ``max_rows`` or ``max_bytes`` (a limit on its state without the base tables), ``seed``
    (for the random choice of keys to evict) and ``without`` (names of fixes to switch off, which lessons use). Raises
    ViewError for an unknown kind or option, and for a view that the strategy does not support.
    """
    if not isinstance(kind, str) or kind not in KINDS:
        raise ViewError(f"engine {kind!r} does not exist; the kinds of engine are {', '.join(KINDS)}")
    more = {"full": {"columns"}, "partial": {"max_rows", "max_bytes", "seed", "without"}}
    known = {"join"} | more.get(kind, set())
    unknown = [name for name in options if name not in known and name != "_like"]
    if unknown:
        raise ViewError(f"option {unknown[0]} is not valid; the {kind} engine accepts {', '.join(sorted(known))}")
    return KINDS[kind](views, **options)


def restore(path: str | Path) -> Engine:
    """Restore an engine from a checkpoint that ``engine.checkpoint(path)`` wrote. It starts at the checkpoint's epoch.

    Raises CheckpointError if a file of the checkpoint is missing or was changed, or if another version of the kit wrote
    the checkpoint.
    """
    return _checkpoint.read(path, engine)


def replay(kind: str, views: View | Sequence[View], **options: Any) -> Replay:
    """Return a :class:`~.replay.play.Replay`, which records runs of ``engine(kind, views, **options)``."""
    return Replay(engine, kind, views, **options)


def tracebacks(full: bool = False) -> None:
    """Show the kit's errors in this notebook with your own frames alone, as in the lessons, or with all if ``full``."""
    importlib.import_module(".show.tracebacks", __name__).tracebacks(full)


_ROOMS = ("postgres", "spark", "managed", "entities", "worker", "lessons", "show", "oracle")


def __getattr__(name: str) -> Any:
    if _missing is not None and name in __all__:
        raise _missing
    # Import these on first use, so that the helper library runs without Spark, PostgreSQL and plotly.
    if name in _ROOMS:
        return importlib.import_module(f".{name}", __name__)
    known = {each.casefold(): each for each in (*_ROOMS, *__all__)}
    meant = "".join(known[each] for each in difflib.get_close_matches(name.casefold(), known, 1))
    raise AttributeError(f"{__name__} has no {name!r}{f'; did you mean {meant}?' if meant else ''}")


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
    "StateError",
    "TimeError",
    "View",
    "ViewError",
    "engine",
    "replay",
    "restore",
    "tracebacks",
]
