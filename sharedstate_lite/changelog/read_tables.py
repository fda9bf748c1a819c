"""What a caller hands to ``step``, as a delta of one relation.

Takes rows with diffs, a pandas or Arrow table with a ``diff`` column, or Changes.
Refuses whatever is not one of these, misses a column or has one too many; the values
themselves are judged in :mod:`.convert`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from ..errors import RowError, TimeError, is_integer, shorten
from ..plan.nodes import Column, Schema, Type
from ..storage.batch import Delta
from ..storage.encoding import NULL, Strings
from ..storage.multiplicity import LIMIT
from . import convert as columns


def table(data: Any, schema: Schema, relation: str, strings: Strings) -> tuple[Delta, int | None]:
    """A frame or an Arrow table as a delta, and the time it carries, if any."""
    names = [str(c) for c in (data.columns if isinstance(data, pd.DataFrame) else data.column_names)]
    found: dict[str, int] = {}
    for at, name in enumerate(names):
        if name.lower() in found:
            raise RowError(f"{relation}: column {name} is there twice; names are compared without case")
        found[name.lower()] = at
    declared = {c.name.lower() for c in schema}
    extra = [n for n in names if n.lower() not in declared | {"diff", "time"}]
    missing = [c.name for c in schema if c.name.lower() not in found]
    if "diff" not in found:
        missing.append("diff (+1 inserts a row, -1 retracts one)")
    if missing or extra:
        faults = [
            f"{what} {', '.join(who)}" for what, who in (("lacks", missing), ("has the unknown column", extra)) if who
        ]
        raise RowError(
            f"{relation}: the table {' and '.join(faults)}; "
            f"it takes {', '.join(c.name for c in schema)}, diff and optionally time"
        )

    def pick(name: str) -> Any:
        return data.iloc[:, found[name]] if isinstance(data, pd.DataFrame) else data.column(found[name])

    convert: Any = columns.from_series if isinstance(data, pd.DataFrame) else columns.from_arrow
    lines = [convert(pick(c.name.lower()), c, relation, strings) for c in schema]
    diffs = checked_diffs(convert(pick("diff"), Column("diff", Type.BIGINT), relation, strings), relation)
    time = None
    if "time" in found and "time" not in declared and len(diffs):
        stamps = np.unique(convert(pick("time"), Column("time", Type.BIGINT), relation, strings))
        if stamps[0] == NULL:
            raise TimeError(f"{relation}: a row's time is NULL; times are one whole number, or leave the column out")
        if len(stamps) > 1:
            raise TimeError(
                f"{relation}: the input has several times, {stamps[0]} and {stamps[1]}; a step is one epoch"
            )
        time = int(stamps[0])
    rows = np.array(lines) if lines else np.empty((0, len(diffs)), dtype=np.int64)
    return Delta(rows, diffs), time


def pairs(data: Iterable[Any], schema: Schema, relation: str, strings: Strings) -> Delta:
    """Rows with diffs, ``[((value, ...), diff), ...]``, as a delta."""
    rows, diffs = [], []
    for at, pair in enumerate(data):
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], tuple | list):
            raise RowError(
                f"{relation}: row {at} is {shorten(pair)}; write ((value, ...), diff), for example ((...), +1)"
            )
        row, diff = pair
        if len(row) != len(schema):
            wanted = ", ".join(c.name for c in schema)
            raise RowError(
                f"{relation}: row {at} has {len(row)} values, the relation has {len(schema)} columns: {wanted}"
            )
        if type(diff) is not int and not is_integer(diff):
            raise RowError(
                f"{relation}: row {at} has the diff {shorten(diff)}; a diff is a whole number, +1 or -1 for one row"
            )
        if not -LIMIT < int(diff) < LIMIT:
            raise RowError(f"{relation}: row {at} has the diff {shorten(diff)}; multiplicities stay below 2**62")
        rows.append(row)
        diffs.append(int(diff))
    cells: Any = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    lines = [columns.from_values(v, c, relation, strings) for v, c in zip(cells, schema, strict=True)]
    out = np.stack(lines) if lines else np.empty((0, len(diffs)), dtype=np.int64)
    return Delta(out, checked_diffs(np.array(diffs, dtype=np.int64), relation))


def checked_diffs(diffs: npt.NDArray[np.int64], relation: str) -> npt.NDArray[np.int64]:
    # In floating point the sum can neither wrap round nor hide a single diff that is too large.
    if np.count_nonzero(diffs) == len(diffs) and float(np.abs(diffs.astype(np.float64)).sum()) < LIMIT:
        return diffs
    bad = np.flatnonzero((diffs == 0) | (diffs <= -LIMIT) | (diffs >= LIMIT))
    if len(bad):
        value = int(diffs[bad[0]])
        shown = "NULL" if value == NULL else str(value)
        raise RowError(f"{relation}: row {bad[0]} has the diff {shown}; a diff is a non-zero whole number below 2**62")
    if sum(map(abs, diffs.tolist())) >= LIMIT:
        raise RowError(f"{relation}: the diffs of this epoch add up to 2**62 or more; use smaller multiplicities")
    return diffs


def infer(data: Any) -> Schema:
    """The schema that a frame's dtypes or a table's types say, without ``diff`` and ``time``."""
    try:
        arrow = pa.Table.from_pandas(data, preserve_index=False) if isinstance(data, pd.DataFrame) else data
    except UnicodeEncodeError as error:
        raise RowError(
            f"changes: {shorten(error.object)} has a lone surrogate, which is not text; mend it first"
        ) from None
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise RowError(f"changes: a column holds values of no one type ({error.args[0]}); give a schema") from error
    out = []
    for field in arrow.schema:
        if field.name.lower() in ("diff", "time"):
            continue
        out.append(Column(field.name, _type(field.type, field.name)))
    return tuple(out)


def _type(given: pa.DataType, name: str) -> Type:
    value = given.value_type if pa.types.is_dictionary(given) else given
    tests = (
        (pa.types.is_boolean, Type.BOOLEAN),
        (pa.types.is_int32, Type.INT),
        (pa.types.is_int16, Type.INT),
        (pa.types.is_int8, Type.INT),
        (pa.types.is_integer, Type.BIGINT),
        (pa.types.is_floating, Type.DOUBLE),
        (pa.types.is_date, Type.DATE),
        (pa.types.is_timestamp, Type.TIMESTAMP),
        (pa.types.is_string, Type.STRING),
        (pa.types.is_large_string, Type.STRING),
        (pa.types.is_null, Type.STRING),
    )
    for test, kind in tests:
        if test(value):
            return kind
    raise RowError(f"column {name} has the type {given}; the types are {', '.join(t.value for t in Type)}")
