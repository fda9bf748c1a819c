"""What is at the checkpoint of a partial engine beside Spark's state store: its base tables; and which keys are filled.

The state reader shows what is in the bins, after kill -9 too: ``filled(location, "result")`` reads the sets of
filled keys there. Base tables are files beside it, or in PostgreSQL, which a checkpoint does not reach.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .. import columns
from ..plan import Schema
from ..words import Strings, Words
from . import tables, wire
from .upplaces import Places

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def joined(blobs: Sequence[bytes], types: Sequence[Any], strings: Strings) -> Words:
    """The filled keys of all bins, as words int64[k, q]."""
    parts = [wire.decode(blob, strings)[:-1] for blob in blobs]
    return np.concatenate([*parts, np.empty((len(types), 0), dtype=np.int64)], axis=1)


def tuples(words: Words, types: Sequence[Any], strings: Strings) -> list[tuple[Any, ...]]:
    """Keys as tuples of values."""
    lines = [columns.to_arrow(w, kind, strings).to_pylist() for w, kind in zip(words, types, strict=True)]
    return list(zip(*lines, strict=True)) if lines else [()] * words.shape[1]


def order(key: tuple[Any, ...]) -> Any:
    """What keys are sorted by: NULL last."""
    return tuple((v is None, v) if v is not None else (True, 0) for v in key)


def _folder(reader: Reader, relation: str) -> Path:
    relations = list(reader.route.engine.catalog.relations)
    return reader.checkpoint.parent / "base" / str(relations.index(relation))


__all__ = ["filled", "joined", "order", "state", "tuples"]
