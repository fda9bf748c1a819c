"""Sets of filled keys as the store holds them, and as values to show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...changelog import convert
from ...storage import wire
from ...storage.encoding import Strings, Words


def joined(blobs: Sequence[bytes], types: Sequence[Any], strings: Strings) -> Words:
    """The filled keys of all bins, as words int64[k, q]."""
    parts = [wire.decode(blob, strings)[:-1] for blob in blobs]
    return np.concatenate([*parts, np.empty((len(types), 0), dtype=np.int64)], axis=1)


def tuples(words: Words, types: Sequence[Any], strings: Strings) -> list[tuple[Any, ...]]:
    """Keys as tuples of values."""
    lines = [convert.to_arrow(w, kind, strings).to_pylist() for w, kind in zip(words, types, strict=True)]
    return list(zip(*lines, strict=True)) if lines else [()] * words.shape[1]


def order(key: tuple[Any, ...]) -> Any:
    """What keys are sorted by: NULL last."""
    return tuple((v is None, v) if v is not None else (True, 0) for v in key)


__all__ = ["joined", "order", "tuples"]
