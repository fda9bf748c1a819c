"""Where an operator's state is stored. Every store holds the same rows; they differ in what each operation costs.

>>> import numpy as np
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
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from ...errors import StateError
from .protocol import Relation, StateStore, StoreReader

KINDS = {
    "dict": ("dicts", "DictStore"),
    "columns": ("columns", "ColumnStore"),
}
"""The module and the class of each kind of store."""


def create(kind: str | Callable[[], StateStore]) -> StateStore:
    """Return a store that is not open yet. ``kind`` is one of `KINDS`, or a function that returns a store.

    Raises StateError for an unknown kind.
    """
    if callable(kind):
        return kind()
    if kind not in KINDS:
        raise StateError(f"store {kind!r} does not exist; the stores are {', '.join(KINDS)}")
    module, name = KINDS[kind]
    store: StateStore = getattr(import_module(f".{module}", __name__), name)()
    return store


__all__ = ["KINDS", "Relation", "StateStore", "StoreReader", "create"]
