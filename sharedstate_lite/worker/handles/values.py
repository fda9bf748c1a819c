"""Values as a user has them, as a batch: without repetition, of one type, without NULL.

Values that are the same get one form: an encoded column is decoded, so that its dictionary neither says which
values there are nor in which order they come; 0.0 and -0.0 are one number; a NaN is refused, as it equals nothing.
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
    """Values as one Arrow array; whole numbers as int64. Raises Error for what is no column, for NULL and NaN."""
    try:
        # A text would be a column of its letters, and a frame or a dict one of its names.
        if isinstance(values, str | bytes | Mapping) or hasattr(values, "columns"):
            raise TypeError("it is a single value, or several columns")
        out: pa.Array[Any] = _plain(values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise Error(
            f"{call}: {name} ({unsafe.type_name(values)}) is no column of one type ({error}); give an array, "
            "a Series, an Arrow array or a list"
        ) from None
    if len(out) and (out.null_count or pa.types.is_null(out.type)):
        raise Error(f"{call}: {name} has {out.null_count} NULL of {len(out)}; drop them, or fill them with a value")
    if pa.types.is_floating(out.type):
        numbers = out.to_numpy(zero_copy_only=False)
        wrong = int(np.isnan(numbers).sum())
        if wrong:
            raise Error(f"{call}: {name} has {wrong} NaN of {len(out)}; drop them, or fill them with a value")
        out = pa.array(numbers + numbers.dtype.type(0), out.type)
    return out


def _plain(values: pa.Array[Any] | pa.ChunkedArray[Any]) -> Any:
    """Values without what a column may be wrapped in. Raises TypeError for values that have parts."""
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
        raise TypeError(f"its values are of type {out.type}, and have parts of their own")
    if pa.types.is_integer(out.type):
        return out.cast(pa.int64())
    if pa.types.is_large_string(out.type) or pa.types.is_string_view(out.type):
        return out.cast(pa.string())
    if pa.types.is_large_binary(out.type) or pa.types.is_binary_view(out.type):
        return out.cast(pa.binary())
    if pa.types.is_decimal32(out.type) or pa.types.is_decimal64(out.type):
        # Arrow has no dictionary of these.
        return out.cast(pa.decimal128(out.type.precision, out.type.scale))
    return out


def distinct(values: Any, call: str, name: str) -> tuple[Codes, pa.Array[Any]]:
    """The different values in the order in which they come, and for each row which of them it is."""
    encoded = column(values, call, name).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary


def first(codes: Codes) -> npt.NDArray[np.bool_]:
    """Which rows are the first of their value; codes come in the order in which values came."""
    highest = np.maximum.accumulate(codes)
    return np.concatenate(([True], highest[1:] > highest[:-1]))
