"""The command ``sharedstate why``: which rows of your files give a row of your view, or where it ended.

    sharedstate why view.sql info.csv visit.csv --row Vegetable,60
    sharedstate why view.sql info.csv visit.csv --row Vegetable,... --at 3 --json

Each file is a table with the name of the file. A column ``diff`` says how often a row is added or removed, and a column
``epoch`` in which epoch. The row has a value for each column of the view, separated by commas, as in a CSV file; NULL
is NULL, and ``...`` any value. The exit status is 0 if the view has the row, 1 if it does not, and 2 after an error.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Sequence
from typing import Any

from ..errors import Error, RowError, ViewError
from ..plan.nodes import Column, Type
from ..plan.view import View
from .files import catalog, engine, script, tables

ANY = "..."
_READ: dict[Type, Any] = {Type.INT: int, Type.BIGINT: int, Type.DOUBLE: float}


def row_of(view: View, text: str) -> list[Any]:
    """Return the values of a row that is written as a line of a CSV file. Raises RowError if one cannot be read."""
    cells = next(csv.reader([text], skipinitialspace=True), [])
    if len(cells) != len(view.schema):
        names = ",".join(f"{c.name} {c.type.value}" for c in view.schema)
        views = ", ".join(name for name in view.catalog.views if name != view.name)
        other = f", or name another view with --view: {views}" if views else ""
        raise ViewError(f"--row {text}: view {view.name} has the columns {names}; write one value for each{other}")
    return [_value(cell, column) for cell, column in zip(cells, view.schema, strict=True)]


def _value(cell: str, column: Column) -> Any:
    if cell in (ANY, "NULL"):
        return ... if cell == ANY else None
    if column.type is Type.BOOLEAN and cell.lower() in ("true", "false"):
        return cell.lower() == "true"
    try:
        return _READ.get(column.type, str)(cell)
    except ValueError as error:
        raise RowError(
            f"--row: {cell!r} is not a value of column {column.name} {column.type.value}; write one, NULL or ..."
        ) from error


def main(arguments: Sequence[str]) -> int:
    """Print why the view has the row, or where it ended. Return the exit status."""
    parser = argparse.ArgumentParser(
        prog="sharedstate why", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sql", help="a file with CREATE VIEW statements")
    parser.add_argument("files", nargs="+", help="a CSV or Parquet file for each table")
    parser.add_argument("--row", required=True, help="the row, such as Vegetable,60")
    parser.add_argument("--view", help="the name of the view; the last one of the file if it is not given")
    parser.add_argument("--at", type=int, metavar="EPOCH", help="as of this epoch; the last one if it is not given")
    parser.add_argument("--json", action="store_true", help="print an object")
    parser.add_argument("--force", action="store_true", help="compute more than a million rows if necessary")
    chosen = parser.parse_args(arguments)
    try:
        given = tables(chosen.files)
        made = catalog(script(chosen.sql), given)
        with engine(made, given, chosen.at) as run:
            view = run._view(chosen.view or list(made.views)[-1])
            row = row_of(view, chosen.row)
            missing = run.why_not(view, row, force=chosen.force)
            found = [run.why(view, each, force=chosen.force) for each in missing.rows]
    except (Error, OSError) as error:
        print(f"sharedstate why: {error}", file=sys.stderr)
        return 2
    if missing.there and ... not in row:
        told, text = found[0].as_json(), str(found[0])
    else:
        told = missing.as_json() | ({"why": [each.as_json() for each in found]} if found else {})
        text = "\n".join(map(str, [missing, *found]))
    print(json.dumps(told, default=str, ensure_ascii=False) if chosen.json else text)
    return 0 if missing.there else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
