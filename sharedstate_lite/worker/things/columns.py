"""Parameters for PostgreSQL from an Arrow table, and its answers as one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ...errors import Error

TYPES: dict[int, pa.DataType] = {
    16: pa.bool_(),
    17: pa.binary(),
    20: pa.int64(),
    21: pa.int16(),
    23: pa.int32(),
    25: pa.string(),
    700: pa.float32(),
    701: pa.float64(),
    1042: pa.string(),
    1043: pa.string(),
    1082: pa.date32(),
    1083: pa.time64("us"),
    1114: pa.timestamp("us"),
    1184: pa.timestamp("us", "UTC"),
    19: pa.string(),
    1005: pa.list_(pa.int16()),
    1007: pa.list_(pa.int32()),
    1016: pa.list_(pa.int64()),
    1009: pa.list_(pa.string()),
    1022: pa.list_(pa.float64()),
}
"""PostgreSQL's number of a type -> Arrow's type."""
ROW = "row"
"""The column that says which row of the parameters an answer is to, where there may be several."""


def parameters(sql: str, table: pa.Table) -> list[Any]:
    """A row as PostgreSQL's client takes it: by name where the SQL names columns, else in their order."""
    if "%(" in sql:
        return table.to_pylist()
    columns = [column.to_pylist() for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def nulls(sql: str, table: pa.Table) -> Any:
    """A row of parameters without a value."""
    return dict.fromkeys(table.column_names) if "%(" in sql else [None] * table.num_columns


def rows(name: str, described: Any, sets: list[list[Any] | int], start: int) -> pa.Table:
    """The answers one after the other, with the number of the row that each is to.

    What answers without rows, such as an INSERT, has the number of rows that it changed.
    """
    if described is None:
        changed = [one for one in sets if isinstance(one, int)]
        numbers = range(start, start + len(sets))
        return pa.table({ROW: pa.array(numbers, pa.int64()), "changed": pa.array(changed, pa.int64())})
    fields: list[pa.Field[Any]] = [pa.field(ROW, pa.int64())]
    for column in described:
        kind = TYPES.get(column.type_code)
        if kind is None:
            raise Error(
                f"{name}: column {column.name} has a type that Arrow is not told ({column.type_display}); cast it"
            )
        fields.append(pa.field(column.name, kind))
    answers = [one if isinstance(one, list) else [] for one in sets]
    numbers_of = [start + at for at, one in enumerate(answers) for _ in one]
    flat = [row for one in answers for row in one]
    columns: list[Any] = list(zip(*flat, strict=True)) if flat else [()] * len(described)
    arrays = [pa.array(numbers_of, pa.int64())]
    arrays += [pa.array(list(values), field.type) for values, field in zip(columns, fields[1:], strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))
