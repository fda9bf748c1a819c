"""Judges a prediction by the same rules by which `replay.questions` judges answers.

A prediction is a Python value or a string such as ``-U Vegetable 50, +U Vegetable 60``. The order of rows and the order
of a set do not matter. The order of a list or tuple of plain values does matter, because each position has its own
meaning. A prediction that cannot be parsed is wrong but does not raise an error.

>>> from sharedstate_lite.show.predict import agrees
>>> agrees("+1 vegetable 60, -1 vegetable 50", [("-U", "Vegetable", 50), ("+U", "Vegetable", 60)])
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, Protocol

import pandas as pd

from ..replay.questions import NOTHING, covers, pattern, signs, tokens

KINDS = ("+I", "-U", "+U", "-D")


class ChangesLike(Protocol):
    """The methods of `Changes` that `emitted` calls."""

    def to_pandas(self) -> pd.DataFrame:
        """Return the changes as a data frame: the columns of the rows, then time and diff."""

    def kinds(self) -> list[str]:
        """Return the kind of each row: +I, -U, +U or -D."""


def emitted(changes: ChangesLike) -> list[tuple[Any, ...]]:
    """Return changes as plain tuples, (kind, value, value, ...) for each row."""
    rows = changes.to_pandas().iloc[:, :-2].astype(object)
    return [(kind, *row) for kind, row in zip(changes.kinds(), rows.itertuples(index=False, name=None), strict=True)]


def near(prediction: Any, happened: Any, factor: float) -> bool:
    """Return whether two positive numbers differ by at most a factor of ``factor``."""
    try:
        low, high = sorted((float(str(prediction)), float(str(happened))))
    except ValueError:
        return False
    return 0 < low and high <= factor * low


def agrees(prediction: Any, happened: Any) -> bool:
    """Return whether the prediction matches what happened."""
    if isinstance(happened, Mapping):
        if not isinstance(prediction, Mapping):
            return False
        mine = {tuple(tokens(str(k))): v for k, v in prediction.items()}
        theirs = {tuple(tokens(str(k))): v for k, v in happened.items()}
        return mine.keys() == theirs.keys() and all(agrees(mine[k], v) for k, v in theirs.items())
    ordered = isinstance(happened, list | tuple) and bool(happened) and not any(map(_many, happened))
    rows = [happened] if ordered else _rows(happened)
    changes = all(len(row) and row[0] in KINDS for row in rows) and not ordered
    patterns = [(signs(row[0]), *pattern(row[1:])) if changes else pattern(row) for row in rows]
    if isinstance(prediction, str):
        words = [] if not rows and prediction.strip().casefold() in NOTHING else tokens(prediction)
        return covers(words, [[each] for each in patterns])
    if ordered:
        typed: list[Sequence[Any]] = [prediction] if isinstance(prediction, list | tuple) else []
    else:
        typed = _rows(list(prediction) if isinstance(happened, Set) and isinstance(prediction, tuple) else prediction)
    for row in typed:
        words = [word for value in row for word in tokens(str(value)) or [""]]
        found = next((each for each in patterns if covers(words, [[each]])), None)
        if found is None:
            return False
        patterns.remove(found)
    return not patterns


def _many(value: Any) -> bool:
    return isinstance(value, list | tuple | Set | pd.DataFrame)


def _rows(value: Any) -> list[Sequence[Any]]:
    if isinstance(value, pd.DataFrame):
        return list(value.itertuples(index=False, name=None))
    if not _many(value):
        return [(value,)]
    if isinstance(value, tuple) and value and not any(map(_many, value)):
        return [value]
    return [each if isinstance(each, list | tuple) else (each,) for each in value]
