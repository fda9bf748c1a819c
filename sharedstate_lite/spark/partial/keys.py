"""Decoding filled keys from the state store, and converting keys to values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...changelog import convert
from ...storage import wire
from ...storage.encoding import Dictionary, Words


def decode_keys(blobs: Sequence[bytes], types: Sequence[Any], strings: Dictionary) -> Words:
    """Decode the filled keys that bins have stored. Returns words int64[k, q]."""
    parts = [wire.decode(blob, strings)[:-1] for blob in blobs]
    return np.concatenate([*parts, np.empty((len(types), 0), dtype=np.int64)], axis=1)


def sorted_keys(words: Words, types: Sequence[Any], strings: Dictionary) -> list[tuple[Any, ...]]:
    """Convert keys, words int64[k, q], to a sorted list of tuples of values. NULL sorts last."""
    columns = [convert.to_arrow(w, kind, strings).to_pylist() for w, kind in zip(words, types, strict=True)]
    keys = list(zip(*columns, strict=True)) if columns else [()] * words.shape[1]
    return sorted(keys, key=lambda key: tuple((v is None, v) if v is not None else (True, 0) for v in key))
