"""Converts Arrow tables to parameters for PostgreSQL, and PostgreSQL's answers to Arrow tables."""

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
"""Maps the OID of each supported PostgreSQL type to an Arrow type."""
ROW = "row"
"""The name of the first column of an answer. It contains the position of the parameter row that a row answers."""


def named(sql: str) -> bool:
    """Return True if the SQL uses named parameters, ``%(name)s``. ``%%`` is an escaped percent sign."""
    return "%(" in sql.replace("%%", "")


def parameters(sql: str, table: pa.Table) -> list[Any]:
    """Return the rows in the form that psycopg accepts: dicts for named parameters, tuples otherwise."""
    if named(sql):
        return table.to_pylist()
    columns = [column.to_pylist() for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def null_parameters(sql: str, table: pa.Table) -> Any:
    """Return one row of parameters that are all NULL."""
    return dict.fromkeys(table.column_names) if named(sql) else [None] * table.num_columns


def answer_table(name: str, described: list[Any], sets: list[list[Any] | int], start: int) -> pa.Table:
    """Return the rows of all answers as one table, each with the position of the parameter row that it answers.

    ``described`` is psycopg's description of each answer, because different parameter types can result in different
    column types. ``sets`` contains the rows of each answer. For a statement that does not return rows, such as an
    INSERT, it contains the number of rows that the statement changed, and the returned table has these numbers in the
    column ``changed``. ``start`` is the position of the first parameter row.
    """
    if described[0] is None:
        changed = [one for one in sets if isinstance(one, int)]
        numbers = range(start, start + len(sets))
        return pa.table({ROW: pa.array(numbers, pa.int64()), "changed": pa.array(changed, pa.int64())})
    answers = [one if isinstance(one, list) else [] for one in sets]
    numbers_of = [start + at for at, one in enumerate(answers) for _ in one]
    flat = [row for one in answers for row in one]
    fields = _fields(name, described, answers)
    columns: list[Any] = list(zip(*flat, strict=True)) if flat else [()] * len(fields)
    arrays: list[Any] = [pa.array(numbers_of, pa.int64())]
    for values, field in zip(columns, fields, strict=True):
        try:
            arrays.append(pa.array(list(values), field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise Error(
                f"{name}: column {field.name} has values of several types ({error}). Cast it in the SQL."
            ) from None
    return pa.Table.from_arrays(arrays, schema=pa.schema([pa.field(ROW, pa.int64()), *fields]))


def concatenate(name: str, parts: list[pa.Table]) -> pa.Table:
    """Concatenate the answers to all pieces of a batch, in order."""
    first = parts[0].schema
    if not all(part.schema.equals(first) for part in parts):
        # The type of a column without values is only a guess, so use the types of the other parts.
        typed = [part for part in parts if part.num_rows] or parts[:1]
        fields = []
        for at, field in enumerate(first):
            found = {part.schema.field(at).type for part in typed if part.column(at).null_count < part.num_rows}
            fields.append(_field(name, field.name, found or {field.type}))
        parts = [part.cast(pa.schema(fields)) for part in typed]
    return pa.concat_tables(parts)


def check_columns(name: str, columns: list[str]) -> None:
    """Raise Error if a column of an answer has the name of the position column."""
    if ROW in columns:
        raise Error(
            f"{name}: the answer has a column {ROW}, but the position column has the same name. Rename it with AS."
        )


def _fields(name: str, described: list[Any], answers: list[list[Any]]) -> list[pa.Field[Any]]:
    """Return the fields of a table that can contain all answers."""
    kinds: dict[tuple[int, ...], Any] = {}
    for columns, answer in zip(described, answers, strict=True):
        codes = tuple(column.type_code for column in columns)
        kinds.setdefault(codes, (columns, []))[1].append(answer)
    check_columns(name, [column.name for column in described[0]])
    fields = []
    for at, column in enumerate(described[0]):
        found = {
            codes[at]: columns[at]
            for codes, (columns, of) in kinds.items()
            if len(kinds) == 1 or any(row[at] is not None for answer in of for row in answer)
        }
        for code, one in found.items():
            if code not in TYPES:
                raise Error(
                    f"{name}: column {one.name} has the unsupported type {one.type_display}. Cast it in the SQL."
                )
        types = {TYPES[code] for code in found}
        fields.append(_field(name, column.name, types or {TYPES.get(column.type_code, pa.string())}))
    return fields


def _field(name: str, column: str, kinds: set[pa.DataType]) -> pa.Field[Any]:
    """Return a field with a type that can represent values of all these types, such as the widest number type."""
    schemas: list[Any] = [pa.schema([pa.field(column, kind)]) for kind in kinds]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field(0)
    except (pa.ArrowException, TypeError) as error:
        raise Error(f"{name}: column {column} has values of several types ({error}). Cast it in the SQL.") from None
