"""The shop's changes, epoch by epoch, computed in this process or by Spark's workers.

Every value is a function of (seed, column, row number), so an epoch has the same rows wherever it is computed. In every
epoch:

- a retraction (-1) removes a row that existed when the epoch began;
- no row is both retracted and inserted, because changes that cancel are omitted;
- a diff is +1 or -1, and a row that is inserted twice is listed twice;
- retractions come before insertions, but any other order would also be valid.

The product of a visit follows a Zipf distribution (p0 has the most visits), and its user a uniform distribution. Its
length follows an exponential distribution with a mean of one minute. Usually a single visit is the longest one in its
category, so deleting it changes the maximum.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from .draws import Whole, Zipf, below, bits, key, uniform
from .schedule import Schedule
from .spec import Spec

pc: Any = pyarrow.compute  # pyarrow's stubs do not allow a comparison with a scalar

MEAN_SECONDS = 60.0
RELATIONS = ("info", "visit")

_TEXT: pa.DataType = pa.string()

ARROW = {
    "info": pa.schema([("product", _TEXT), ("category", _TEXT), ("diff", pa.int64())]),
    "visit": pa.schema([("product", _TEXT), ("user", _TEXT), ("length", pa.int32()), ("diff", pa.int64())]),
}
"""Relation -> the Arrow schema of its changes."""

_PRODUCT, _USER, _LENGTH, _AGAIN, _CATEGORY, _OTHER, _NET = range(11, 18)
_PREFIXES = {"product": "p", "user": "u", "category": "c"}


def generate(**parameters: Any) -> Iterator[tuple[int, dict[str, pa.Table]]]:
    """Yield each epoch of a shop: (epoch, {relation: Arrow table with ``diff``}).

    You can pass the tables of an epoch to ``step``. The parameters are those of `Spec`. Only one epoch at a time is in
    memory. Invalid parameters raise Error at the call, before the first epoch.
    """
    spec = Spec.make(**parameters)
    return ((epoch, changes(spec, epoch)) for epoch in range(1, spec.epochs + 1))


def changes(spec: Spec, epoch: int) -> dict[str, pa.Table]:
    """Return all changes of one epoch, {relation: Arrow table with ``diff``}. Epochs are numbered from 1."""
    return {"info": _info(spec, epoch), "visit": _visits(spec, epoch)}


def _info(spec: Spec, epoch: int) -> pa.Table:
    if epoch == 1:
        products = np.arange(spec.products, dtype=np.int64)
        return _table("info", [products, _category(spec, products)], 0)
    moving = Schedule(spec).moving(epoch)
    old = _category(spec, moving)
    new = (old + 1 + below(max(1, spec.categories - 1), key(spec.seed, _OTHER), moving)) % spec.categories
    # A product has one row at a time, so changes cannot cancel.
    return _table("info", [np.concatenate([moving, moving]), np.concatenate([old, new])], len(moving))


def _visits(spec: Spec, epoch: int) -> pa.Table:
    schedule = Schedule(spec)
    going, changed = schedule.going(epoch)
    changing, coming = schedule.changing(epoch), schedule.coming(epoch)
    gone = _visit(spec, np.concatenate([going, changing]), np.concatenate([changed, np.zeros(len(changing), bool)]))
    come = _visit(spec, np.concatenate([changing, coming]), np.arange(len(changing) + len(coming)) < len(changing))
    gone, come = net(gone, come)
    return _table("visit", list(np.concatenate([gone, come], axis=1)), gone.shape[1])


def _category(spec: Spec, products: Whole) -> Whole:
    return below(spec.categories, key(spec.seed, _CATEGORY), products)


def _visit(spec: Spec, visits: Whole, changed: npt.NDArray[np.bool_]) -> Whole:
    """Return product, user and length of each visit, as numbers of shape (3, n).

    ``changed`` has one boolean per visit: True selects the length after the visit's update.
    """
    first = _length(spec, _LENGTH, visits)
    again = _length(spec, _AGAIN, visits)
    lengths = np.where(changed, again + (again == first), first)  # an update always changes the length
    products = Zipf(spec.products, spec.skew).draw(key(spec.seed, _PRODUCT), visits)
    return np.stack([products, below(spec.users, key(spec.seed, _USER), visits), lengths])


def _length(spec: Spec, what: int, visits: Whole) -> Whole:
    return 1 + np.floor(-MEAN_SECONDS * np.log1p(-uniform(key(spec.seed, what), visits))).astype(np.int64)


def net(gone: Whole, come: Whole) -> tuple[Whole, Whole]:
    """Return the retracted rows ``gone`` and the inserted rows ``come``, without rows that cancel.

    Both are arrays with one row per column of the relation, of shapes (k, n) and (k, m).
    """
    if not gone.shape[1] or not come.shape[1]:
        return gone, come
    marks = [
        sum((bits(key(_NET, at), column) for at, column in enumerate(side)), np.uint64(0)) for side in (gone, come)
    ]
    met = np.isin(marks[0], marks[1]), np.isin(marks[1], marks[0])
    if not met[0].any():
        return gone, come
    # Hashes select the few rows that can be equal, and only these rows are compared.
    rows = np.concatenate([gone[:, met[0]], come[:, met[1]]], axis=1)
    signs = np.repeat([-1, 1], [np.count_nonzero(met[0]), np.count_nonzero(met[1])])
    order = np.lexsort(rows)
    rows, signs = rows[:, order], signs[order]
    starts = np.flatnonzero(np.concatenate([[True], (rows[:, 1:] != rows[:, :-1]).any(axis=0)]))
    totals, distinct = np.add.reduceat(signs, starts), rows[:, starts]
    left = [np.repeat(distinct, np.maximum(sign * totals, 0), axis=1) for sign in (-1, 1)]
    return np.concatenate([gone[:, ~met[0]], left[0]], axis=1), np.concatenate([come[:, ~met[1]], left[1]], axis=1)


def _table(relation: str, columns: list[Whole], retractions: int) -> pa.Table:
    """Return the rows as an Arrow table. Numbers of products, users and categories become names such as p0.

    The first ``retractions`` rows get the diff -1, and the other rows get +1.
    """
    arrays: list[pa.Array[Any]] = []
    for field, numbers in zip(ARROW[relation], columns, strict=False):
        values = pa.array(numbers)
        if field.name in _PREFIXES:
            arrays.append(pc.binary_join_element_wise(_PREFIXES[field.name], values.cast(pa.string()), ""))
        else:
            arrays.append(values.cast(field.type))
    signs = np.ones(len(columns[0]), dtype=np.int64)
    signs[:retractions] = -1
    return pa.table([*arrays, pa.array(signs)], schema=ARROW[relation])
