"""The example's two tables, and the declaration of a table for a catalog."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pyarrow as pa

from ..changelog.read_tables import infer
from ..errors import RowError
from .files import load

SCHEMA = {
    "info": "product STRING, category STRING",
    "visit": "product STRING, user STRING, length INT",
}
"""The declarations of the shop's relations, for ``ss.Catalog(**SCHEMA)``. ``length`` is in seconds."""

_HERE = Path(__file__).parent
FOLDER = _HERE / "seed" if (_HERE / "seed").is_dir() else _HERE.parents[1] / "data" / "seed"
"""The tables are beside this module if the package was installed from a wheel, and in data/ in a checkout."""


def seed() -> dict[str, pd.DataFrame]:
    """Return the example's two tables, {relation: frame}, without a column ``diff``.

    There are four products and five visits. Eve's visit is the last one.
    """
    return {name: load(FOLDER / f"{name}.csv", schema).drop(columns="diff") for name, schema in SCHEMA.items()}


def declaration(table: pd.DataFrame | pa.Table) -> str:
    """Return the declaration of a table's columns for a catalog. ``diff`` and ``time`` are not included.

    >>> import pandas as pd
    >>> declaration(pd.DataFrame({"product": ["Potato"], "length": [50], "diff": [1]}))
    'product STRING, length BIGINT'

    Raises RowError if there are no other columns, if two columns have the same name, if a column has no name, or if the
    kit does not support a column's type.
    """
    if not isinstance(table, pd.DataFrame | pa.Table):
        raise RowError(f"declaration: {type(table).__name__} is not a table. Pass a pandas frame or an Arrow table.")
    names = [str(name).lower() for name in (table.columns if isinstance(table, pd.DataFrame) else table.column_names)]
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise RowError(f"declaration: two columns are named {twice} (ignoring case). Rename one of them.")
    try:
        columns = infer(pa.Table.from_pandas(table, preserve_index=False) if isinstance(table, pd.DataFrame) else table)
    except RowError as error:
        raise RowError(f"declaration: {error}") from error
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = ": ".join(map(str, error.args))
        raise RowError(
            f"declaration: a column has values of several types ({reason}). Convert it to one type first."
        ) from error
    if not columns:
        raise RowError("declaration: a relation needs a column other than diff and time. Add one.")
    if not all(c.name for c in columns):
        raise RowError(
            "declaration: a column has no name, but every column of a relation must have one. Rename it first."
        )
    quoted = (c.name if re.fullmatch(r"[^\W\d]\w*", c.name) else '"' + c.name.replace('"', '""') + '"' for c in columns)
    return ", ".join(f"{name} {c.type.value}" for name, c in zip(quoted, columns, strict=True))
