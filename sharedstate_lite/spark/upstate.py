"""What is at the checkpoint of a partial engine beside Spark's state store: its base tables; and which keys are filled.

The state reader shows what is in the bins, after kill -9 too: ``filled(location, "result")`` reads the sets of
filled keys there. Base tables are files beside it, or in PostgreSQL, which a checkpoint does not reach.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..plan import Schema
from ..words import Strings
from . import tables
from .upkeys import joined, order, tuples
from .upplaces import Places

if TYPE_CHECKING:
    from ..held import Held
    from .store import Reader


def state(reader: Reader, operator: str | None) -> pd.DataFrame:
    """See :func:`.store.state`; base tables are shown as they are now."""
    bases = {h.operator: h for h in reader.route.engine.held() if h.base}
    if operator in bases:
        return _base_rows(reader, bases[operator])
    if operator is not None:
        stage, place = tables.find(reader.route, operator)
        return tables.state_rows(place, reader.blobs(stage, operator))
    table = tables.state_table(reader.route, reader.heads())
    for name, place in bases.items():
        file = _folder(reader, place.relation) / "files.json"
        if file.exists():
            files = json.loads(file.read_text())["files"]
            mine = table.operator == name
            table.loc[mine, "rows"] = sum(f["rows"] for f in files)
            table.loc[mine, "bytes"] = sum(f["bytes"] for f in files)
    return table


def _base_rows(reader: Reader, place: Held) -> pd.DataFrame:
    """The rows of a base table in files, with their diff."""
    from .basefiles import Files
    from .baserows import Rows

    schema: Schema = reader.route.engine.catalog.schema(place.relation)
    folder = _folder(reader, place.relation)
    table = Files(reader.session, folder, place.relation, schema, look=True)
    return Rows(reader.session, lambda _: table, {place.relation: schema}, folder).shown(place)


def filled(reader: Reader, operator: str) -> list[tuple[Any, ...]]:
    """The filled keys, sorted, of an operator that keeps them."""
    route: Any = reader.route
    assert isinstance(route, Places)
    stage, _, known = route.filled(operator)
    strings = Strings()
    words = joined(reader.blobs(stage, f"{operator} keys"), known.types, strings)
    return sorted(tuples(words, known.types, strings), key=order)


def _folder(reader: Reader, relation: str) -> Path:
    relations = list(reader.route.engine.catalog.relations)
    return reader.checkpoint.parent / "base" / str(relations.index(relation))


__all__ = ["filled", "state"]
