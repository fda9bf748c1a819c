"""The seed's two tables, and what a catalog says of a table."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pyarrow as pa

from sharedstate_lite.errors import RowError
from sharedstate_lite.ingest import infer

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

    ``diff`` and ``time`` are left out. Raises RowError where a column's type is none of the kit's, or it has no name.
    """
    if not isinstance(table, pd.DataFrame | pa.Table):
        raise RowError(f"declaration: {type(table).__name__} is no table; give a pandas frame or an Arrow table")
    columns = infer(table)
    if not all(c.name for c in columns):
        raise RowError("declaration: a column has no name, and a relation's columns have one; rename it first")
    quoted = (c.name if re.fullmatch(r"[^\W\d]\w*", c.name) else '"' + c.name.replace('"', '""') + '"' for c in columns)
    return ", ".join(f"{name} {c.type.value}" for name, c in zip(quoted, columns, strict=True))
