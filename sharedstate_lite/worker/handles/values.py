"""Converts a user's values to one Arrow array, in which equal values have the same representation.

Dictionary-encoded columns are decoded, because a dictionary can contain unused values, or values in a different order.
-0.0 becomes 0.0. NULL is rejected, and so is NaN, because it is not equal to any value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...errors import Error
from . import unsafe

Codes = npt.NDArray[np.int64]


def column(values: Any, call: str, name: str) -> pa.Array[Any]:
    """Return values as one Arrow array. Integers become int64.

    Raises Error if ``values`` is not a single column of one type, or if it contains NULL or NaN. ``call`` and ``name``
    are the function and the parameter that the message names.
    """
    try:
        # pa.array() would convert a string to its characters, and a frame or dict to its column names.
        if isinstance(values, str | bytes | Mapping) or hasattr(values, "columns"):
            raise TypeError("it is a single value or has several columns")
        out: pa.Array[Any] = _plain(values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise Error(
            f"{call}: {name} ({unsafe.type_name(values)}) is not a column of one type ({error}). Pass a NumPy array, a "
            "pandas Series, an Arrow array or a list."
        ) from None
    if len(out) and (out.null_count or pa.types.is_null(out.type)):
        raise Error(f"{call}: {out.null_count} of the {len(out)} values in {name} are NULL. Drop or replace them.")
    if pa.types.is_floating(out.type):
        numbers = out.to_numpy(zero_copy_only=False)
        wrong = int(np.isnan(numbers).sum())
        if wrong:
            raise Error(f"{call}: {wrong} of the {len(out)} values in {name} are NaN. Drop or replace them.")
        out = pa.array(numbers + numbers.dtype.type(0), out.type)
    return out


def _plain(values: pa.Array[Any] | pa.ChunkedArray[Any]) -> Any:
    """Return the values as one array, in the simplest encoding of their type. Raises TypeError for nested types."""
    out: Any = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if isinstance(out, pa.ChunkedArray):
        out = pa.concat_arrays(out.chunks)
    if isinstance(out, pa.ExtensionArray):
        out = out.storage
    if pa.types.is_dictionary(out.type):
        out = out.dictionary_decode()
    if pa.types.is_run_end_encoded(out.type):
        import pyarrow.compute as pc

        out = pc.call_function("run_end_decode", [out])
    if pa.types.is_nested(out.type):
        raise TypeError(f"its values have the nested type {out.type}")
    if pa.types.is_integer(out.type):
        return out.cast(pa.int64())
    if pa.types.is_large_string(out.type) or pa.types.is_string_view(out.type):
        return out.cast(pa.string())
    if pa.types.is_large_binary(out.type) or pa.types.is_binary_view(out.type):
        return out.cast(pa.binary())
    if pa.types.is_decimal32(out.type) or pa.types.is_decimal64(out.type):
        # Arrow cannot dictionary-encode these.
        return out.cast(pa.decimal128(out.type.precision, out.type.scale))
    return out


def distinct(values: Any, call: str, name: str) -> tuple[Codes, pa.Array[Any]]:
    """Return (codes, distinct): ``distinct`` contains the distinct values, in order of first appearance.

    ``codes`` contains, for each row, the position of its value in ``distinct``. Raises Error like :func:`column`.
    """
    encoded = column(values, call, name).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary


def first(codes: Codes) -> npt.NDArray[np.bool_]:
    """Return one boolean per row, True for the first row with each value. ``codes`` comes from :func:`distinct`."""
    highest = np.maximum.accumulate(codes)
    return np.concatenate(([True], highest[1:] > highest[:-1]))
