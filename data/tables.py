"""The seed's two tables, and what a catalog says of a table."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pyarrow as pa

from sharedstate_lite.changelog.read_tables import infer
from sharedstate_lite.errors import RowError, shorten

from .files import load

SCHEMA = {
    "info": "product STRING, category STRING",
    "visit": "product STRING, user STRING, length INT",
}
"""The shop's relations, as a catalog takes them: ``ss.Catalog(**SCHEMA)``. ``length`` counts seconds."""

FOLDER = Path(__file__).parent / "seed"


def seed() -> dict[str, pd.DataFrame]:
    """The shop's tables as the seed has them: four products, five visits, Eve's last; without diffs."""
    return {name: load(FOLDER / f"{name}.csv", schema).drop(columns="diff") for name, schema in SCHEMA.items()}


def declaration(table: pd.DataFrame | pa.Table) -> str:
    """What a catalog takes to declare a table's columns: ``"product STRING, length INT"``.

    ``diff`` and ``time`` are left out. Raises RowError where no column is left, one is there twice or has
    no name, or its type is none of the kit's.
    """
    if not isinstance(table, pd.DataFrame | pa.Table):
        raise RowError(f"declaration: {type(table).__name__} is no table; give a pandas frame or an Arrow table")
    names = [str(name).lower() for name in (table.columns if isinstance(table, pd.DataFrame) else table.column_names)]
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise RowError(f"declaration: column {twice} is there twice; names are compared without case, so rename one")
    try:
        columns = infer(pa.Table.from_pandas(table, preserve_index=False) if isinstance(table, pd.DataFrame) else table)
    except UnicodeEncodeError as error:
        raise RowError(
            f"declaration: {shorten(error.object)} has a lone surrogate, which is not text; mend it first"
        ) from None
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = ": ".join(map(str, error.args))
        raise RowError(f"declaration: a column holds values of no one type ({reason}); cast it first") from error
    if not columns:
        raise RowError("declaration: there is no column but diff and time, and a relation has one; add a column")
    if not all(c.name for c in columns):
        raise RowError("declaration: a column has no name, and a relation's columns have one; rename it first")
    quoted = (c.name if re.fullmatch(r"[^\W\d]\w*", c.name) else '"' + c.name.replace('"', '""') + '"' for c in columns)
    return ", ".join(f"{name} {c.type.value}" for name, c in zip(quoted, columns, strict=True))
