"""Values as a user has them, as a batch: without repetition, of one type, without NULL."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..errors import Error
from . import refusal

Codes = npt.NDArray[np.int64]


def column(values: Any, call: str, name: str) -> pa.Array[Any]:
    """Values as one Arrow array; whole numbers as int64. Raises Error for what is no column, and for NULL."""
    try:
        if isinstance(values, pa.ChunkedArray):
            out = values.combine_chunks()
        elif isinstance(values, pa.Array):
            out = values
        else:
            out = pa.array(values)
        if pa.types.is_integer(out.type) and out.type != pa.int64():
            out = out.cast(pa.int64())
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise Error(
            f"{call}: {name} ({refusal.described(values)}) is no column of one type ({error}); give an array, "
            "a Series, an Arrow array or a list"
        ) from None
    if isinstance(out, pa.ChunkedArray):
        out = out.combine_chunks()
    if len(out) and (out.null_count or pa.types.is_null(out.type)):
        raise Error(f"{call}: {name} has {out.null_count} NULL of {len(out)}; drop them, or fill them with a value")
    return out


def distinct(values: Any, call: str, name: str) -> tuple[Codes, pa.Array[Any]]:
    """The different values in the order in which they come, and for each row which of them it is."""
    encoded = column(values, call, name).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary


def first(codes: Codes) -> npt.NDArray[np.bool_]:
    """Which rows are the first of their value; codes come in the order in which values came."""
    highest = np.maximum.accumulate(codes)
    return np.concatenate(([True], highest[1:] > highest[:-1]))
