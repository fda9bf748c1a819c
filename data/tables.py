"""The example's two tables, and the declaration of a table for a catalog."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pyarrow as pa

from sharedstate_lite.changelog.read_tables import infer
from sharedstate_lite.errors import RowError

from .files import load

SCHEMA = {
    "info": "product STRING, category STRING",
    "visit": "product STRING, user STRING, length INT",
}
"""The shop's relations, for ``ss.Catalog(**SCHEMA)``. ``length`` is in seconds."""

FOLDER = Path(__file__).parent / "seed"


def seed() -> dict[str, pd.DataFrame]:
    """The example's tables, {relation: frame}: four products and five visits, Eve's last; without diffs."""
    return {name: load(FOLDER / f"{name}.csv", schema).drop(columns="diff") for name, schema in SCHEMA.items()}


def declaration(table: pd.DataFrame | pa.Table) -> str:
    """The declaration of a table's columns for a catalog, without ``diff`` and ``time``.

    >>> import pandas as pd
    >>> declaration(pd.DataFrame({"product": ["Potato"], "length": [50], "diff": [1]}))
    'product STRING, length BIGINT'

    Raises RowError if no column is left, if two have one name or one has none, and for a type that the kit lacks.
    """
    if not isinstance(table, pd.DataFrame | pa.Table):
        raise RowError(f"declaration: {type(table).__name__} is not a table; pass a pandas frame or an Arrow table")
    names = [str(name).lower() for name in (table.columns if isinstance(table, pd.DataFrame) else table.column_names)]
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise RowError(f"declaration: two columns are called {twice}, and case does not count; rename one")
    try:
        columns = infer(pa.Table.from_pandas(table, preserve_index=False) if isinstance(table, pd.DataFrame) else table)

    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = ": ".join(map(str, error.args))
        raise RowError(f"declaration: a column has values of several types ({reason}); cast it first") from error
    if not columns:
        raise RowError("declaration: a relation needs a column other than diff and time; add one")
    if not all(c.name for c in columns):
        raise RowError("declaration: a column has no name, and a relation's columns need one; rename it first")
    quoted = (c.name if re.fullmatch(r"[^\W\d]\w*", c.name) else '"' + c.name.replace('"', '""') + '"' for c in columns)
    return ", ".join(f"{name} {c.type.value}" for name, c in zip(quoted, columns, strict=True))
