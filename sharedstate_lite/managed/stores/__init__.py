"""Where an operator's state is stored. Every store holds the same rows; they differ in what each operation costs.

>>> import numpy as np
>>> from sharedstate_lite.managed.stores import Relation, create
>>> from sharedstate_lite.plan import Column, Type
>>> from sharedstate_lite.storage import Delta, Dictionary
>>> total = Relation("total", (Column("plane", Type.INT), Column("value", Type.BIGINT)), key=1)
>>> for kind in ("dict", "columns"):
...     store = create(kind)
...     store.open("late", [total], Dictionary(), bins=8)
...     store.write({"total": Delta(np.array([[7, 8], [10, 20]]), np.array([1, 1]))}, epoch=1)
...     print(kind, store.read("total", np.array([[8]]))[1].tolist())
dict [[8], [20]]
columns [[8], [20]]

`protocol` states what a store must do. `dicts` is the shortest one.

    dict       dictionaries in memory
    columns    arrangements: sorted columns, a main part and deltas
    hybrid     a log that is updated in place at its end (FASTER)
    rocksdb    a log-structured merge tree on the local disk (Flink, Kafka Streams)
    files      dictionaries, a delta file for each version and a snapshot of every tenth (Spark)
    log        dictionaries that are computed from a changelog (Kafka Streams, Samza)
    postgres   a database server (MillWheel's external state)
    inside     a database server that can reduce the values itself (S-Store)
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from ...errors import StateError
from .protocol import Relation, StateStore, StoreReader

KINDS = {
    "dict": ("dicts", "DictStore"),
    "columns": ("columns", "ColumnStore"),
    "hybrid": ("hybrid", "HybridStore"),
    "rocksdb": ("rocks", "RocksStore"),
    "files": ("files", "FileStore"),
    "log": ("log", "LogStore"),
    "postgres": ("remote", "RemoteStore"),
    "inside": ("inside", "InsideStore"),
}
"""The module and the class of each kind of store."""


def create(kind: str | Callable[[], StateStore]) -> StateStore:
    """Return a store that is not open yet. ``kind`` is one of `KINDS`, or a function that returns a store.

    Raises StateError for an unknown kind, and for one whose package is not installed.
    """
    if callable(kind):
        return kind()
    if kind not in KINDS:
        raise StateError(f"store {kind!r} does not exist; the stores are {', '.join(KINDS)}")
    module, name = KINDS[kind]
    try:
        store: StateStore = getattr(import_module(f".{module}", __name__), name)()
    except ImportError as error:
        raise StateError(
            f"store {kind!r} needs the package {error.name}, which is not installed; run make setup"
        ) from error
    return store


__all__ = ["KINDS", "Relation", "StateStore", "StoreReader", "create"]
