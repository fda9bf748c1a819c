"""FROM clauses that no person would think of (see :mod:`froms`), compared with DuckDB."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import duckdb
from froms import RELATIONS, changes, query
from support import tuples

import sharedstate_lite as ss

VIEWS = 80


def test_any_from_clause_equals_duckdb() -> None:
    """No view is refused, and full and shared state give the rows that DuckDB gives, after insertions and deletions."""
    draw, catalog = random.Random("FROM"), ss.Catalog(**RELATIONS)
    queries = [query(draw) for _ in range(VIEWS)]
    views = [catalog.view(f"CREATE VIEW v{n} AS {text}") for n, text in enumerate(queries)]
    there: dict[str, list[Any]] = {relation: [] for relation in RELATIONS}
    engines, wanted = [ss.engine(kind, views) for kind in ("full", "shared")], []
    for epoch in [changes(draw, there) for _ in range(3)]:
        for engine in engines:
            engine.step(epoch)
    with duckdb.connect() as database:
        for relation, rows in there.items():
            database.execute(f"CREATE TABLE {relation} ({RELATIONS[relation].replace('STRING', 'VARCHAR')})")
            database.executemany(f"INSERT INTO {relation} VALUES (?, ?, ?)", rows)
        wanted = [Counter(database.execute(text).fetchall()) for text in queries]
    for engine in engines:
        for view, text, rows in zip(views, queries, wanted, strict=True):
            assert (text, Counter(tuples(engine.read(view.name)))) == (text, rows)
    assert sum(map(bool, wanted)) > 0.7 * VIEWS
