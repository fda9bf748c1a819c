"""Batches of rows: accepts pandas frames and Arrow tables, and returns results in the kind of the input.

>>> import pandas as pd
>>> frame = pd.DataFrame({"id": [7, 9]}, index=[3, 5])
>>> table = as_table("map", frame)
>>> like(table, frame, one_each=True).index.tolist()
[3, 5]
"""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa

from ...errors import Error


def as_table(call: str, batch: Any) -> pa.Table:
    """Return a pandas frame, an Arrow table or a record batch as an Arrow table.

    Raises Error for other values, and for a frame that Arrow cannot represent; the message names ``call``.
    """
    if isinstance(batch, pa.RecordBatch):
        return pa.Table.from_batches([batch])
    if _is_pandas(batch, "DataFrame"):
        if batch.columns.empty:
            return pa.table({"": pa.nulls(len(batch))}).select([])  # from_pandas() would drop the rows
        try:
            return pa.Table.from_pandas(batch, preserve_index=False)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            said = " ".join(map(str, error.args))
            raise Error(
                f"{call}: the DataFrame cannot be converted to Arrow ({said}). Use one type in each column."
            ) from None
    if not isinstance(batch, pa.Table):
        raise Error(
            f"{call}: got a {type(batch).__qualname__}. Pass a pandas DataFrame or an Arrow table, such as "
            "pa.table({'id': ids})."
        )
    return batch


def like(result: pa.Table, batch: Any, *, one_each: bool = False, one_batch: bool = False) -> Any:
    """Return a result as a DataFrame if ``batch`` is a pandas object, and as a table otherwise.

    Columns of integers with NULLs get pandas' nullable type, such as Int64, because float64 would round large integers.
    ``one_each`` means that the result has one row for each row of ``batch``, so it gets the same index. With
    ``one_batch``, the result for a record batch is a record batch.
    """
    if one_batch and isinstance(batch, pa.RecordBatch):
        pieces = result.to_batches()
        if not pieces:
            return pa.RecordBatch.from_pylist([], result.schema)
        return pa.concat_batches(pieces)  # type: ignore[attr-defined]
    if not (_is_pandas(batch, "DataFrame") or _is_pandas(batch, "Series")):
        return result
    frame = result.to_pandas()
    for at, column in enumerate(result.columns):
        if column.null_count and pa.types.is_integer(column.type):
            frame.isetitem(at, column.to_pandas(types_mapper=_nullable).array)
    if not one_each:
        return frame
    return frame.set_axis(batch.index) if result.num_columns else frame.reindex(batch.index)


def key_column(keys: pa.Array[Any], given: Any) -> Any:
    """Return an array of keys as a Series if the user has given a Series, and unchanged otherwise."""
    return keys.to_pandas() if _is_pandas(given, "Series") else keys


def _is_pandas(value: Any, kind: str) -> bool:
    # If pandas has not been imported, the value cannot be a pandas object, and the import can be saved.
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, getattr(pandas, kind))


def _nullable(kind: pa.DataType) -> Any:
    import pandas as pd

    return pd.api.types.pandas_dtype(str(kind).replace("int", "Int").replace("u", "U"))
