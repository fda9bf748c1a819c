"""Views from a file of SQL, and an engine with the rows of a user's files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import sqlglot

from ..data import declaration, load
from ..dataflow.shared import Shared
from ..errors import Error, RelationError, SqlError
from ..sql.catalog import Catalog
from ..sql.scope import UnknownRelation

EPOCH, MOST_EPOCHS = "epoch", 10_000
"""The column of a file that says in which epoch a row arrives, from 1 to this number. Without it, all do in epoch 1."""


def tables(paths: Sequence[str | Path]) -> dict[str, pd.DataFrame]:
    """Return the table of each file, named like the file. Raises Error if a file cannot be read, or a name is twice."""
    found: dict[str, pd.DataFrame] = {}
    for path in map(Path, paths):
        name = path.name.partition(".")[0]
        if name.lower() in map(str.lower, found):
            raise RelationError(f"two files are named {name}, and a table has the name of its file; rename one of them")
        found[name] = load(path)
    return found


def script(path: str | Path) -> str:
    """Return the text of a file of SQL. Raises Error if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise Error(f"{path}: cannot read this file ({reason}); pass a file with CREATE VIEW statements") from error


def catalog(sql: str, given: dict[str, pd.DataFrame]) -> Catalog:
    """Return a catalog with these tables and the views of a text of SQL, in its order.

    Raises SqlError if the text has no CREATE VIEW, or if the kit does not support one.
    """
    made = Catalog(**{name: declaration(table.drop(columns=EPOCH, errors="ignore")) for name, table in given.items()})
    for statement in _statements(sql):
        try:
            made.view(statement)
        except UnknownRelation as error:
            raise UnknownRelation(f"{error}; pass the file of each table that the views read") from error
    if not made.views:
        raise SqlError("the SQL has no view; write CREATE VIEW name AS SELECT ...")
    return made


def _statements(text: str) -> list[str]:
    """Split SQL at its semicolons, but not at those in texts and comments."""
    try:
        tokens = sqlglot.tokenize(text, dialect="spark")
    except sqlglot.errors.TokenError:
        return [text]  # the catalog says what is wrong with it
    ends = [token.start for token in tokens if token.token_type.name == "SEMICOLON"]
    parts = [text[start:end] for start, end in zip([0, *(end + 1 for end in ends)], [*ends, len(text)], strict=True)]
    return [part for part in parts if sqlglot.tokenize(part, dialect="spark")]


def engine(made: Catalog, given: dict[str, pd.DataFrame], until: int | None = None) -> Shared:
    """Return an engine in shared state with all views, after the rows of each table up to epoch ``until``.

    Raises RowError if a row does not fit, and Error if a column ``epoch`` has no numbers of epochs.
    """
    steps = epochs(given)
    if until is not None and not 1 <= until <= len(steps):
        raise Error(
            f"--at {until}: the files have the epochs 1 to {len(steps)}; their column epoch says which row has which"
        )
    run = Shared([*made.views.values()])
    for step in steps[:until]:
        run.step(step)
    return run


def epochs(given: dict[str, pd.DataFrame], cut: int = 1) -> list[dict[str, pd.DataFrame]]:
    """Return the rows of each table in each epoch. If no table has a column ``epoch``, each comes in ``cut`` parts.

    Raises Error if a column ``epoch`` has no numbers of epochs.
    """
    cut = 1 if any(EPOCH in table for table in given.values()) else cut
    times = {name: _times(name, table, cut) for name, table in given.items()}
    last = max([cut, *(int(each.max()) for each in times.values() if len(each))])
    plain = {name: table.drop(columns=EPOCH, errors="ignore") for name, table in given.items()}
    return [{name: plain[name][times[name] == epoch] for name in given} for epoch in range(1, last + 1)]


def _times(name: str, table: pd.DataFrame, cut: int) -> pd.Series[int]:
    if EPOCH not in table:
        return pd.Series(np.arange(len(table)) * cut // max(len(table), 1) + 1, index=table.index)
    column = pd.to_numeric(table[EPOCH], errors="coerce")
    if not ((column >= 1) & (column <= MOST_EPOCHS) & (column % 1 == 0)).fillna(False).all():
        raise Error(
            f"{name}: column epoch must have numbers of epochs, from 1 to {MOST_EPOCHS:,}; rename it if it is data"
        )
    return column.astype(int)
