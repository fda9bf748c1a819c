"""SQL over managed state: the tables of the schemas ``live`` and ``snapshot``, one for each keyed state.

    live.total        the state now. What it shows can be undone by a crash.
    snapshot.total    the state in a committed snapshot. A crash never undoes it, and a second read gives the same rows.

A table has the columns of the key, and one with the name of the state. Nested types are DuckDB's. DuckDB runs the text
as it is, over one view for each table that the text names; as in all of SQL, upper and lower case are the same name.

All snapshot tables of a query are read at one snapshot id, which every operator has, so a join never mixes two moments.
With ids of their own (``at={"total": 3, "last": 4}``) they can: `query` allows it to show what goes wrong.

Source: Verheijde et al., S-QUERY: Opening the black box of internal stream processor state, ICDE 2022.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import duckdb
import pandas as pd
import pyarrow as pa
import sqlglot
from sqlglot import exp

from ..errors import SqlError, StateError, TimeError, shorten
from .declare import Declared
from .events import Events

SCHEMAS = ("live", "snapshot")
_SAFE: dict[str, Any] = {"enable_external_access": "false", "python_enable_replacements": "false", "threads": "1"}
At = int | Mapping[str, int] | None


class Queryable(Protocol):
    """What `query` reads: a run in this process, or on Spark."""

    @property
    def chain(self) -> Sequence[Declared]:
        """The operators."""

    @property
    def snapshots(self) -> list[int]:
        """The ids of the snapshots that all operators have, from the oldest."""

    def contents(self, name: str, at: int | None = None) -> Events:
        """Return the keys and values of a state, now or in a snapshot. Raises StateError and TimeError."""


def query(state: Queryable, text: str, at: At = None) -> pd.DataFrame:
    """Return the result of one SELECT over state. ``at`` is a snapshot id; None is the newest one.

    Raises SqlError for SQL that is not one SELECT or that DuckDB does not accept, and for a name that several states
    have; StateError for a table without a state, and TimeError for a snapshot that is not kept.

    >>> from sharedstate_lite import managed as m
    >>> class Total(m.Operator):
    ...     total = m.Reducing("BIGINT", "sum")
    ...     def rows(self, batch, out):
    ...         self.total.add(batch.keys, batch["length"])
    >>> run = m.run(Total(), m.source("visit", "product STRING, length INT", key="product"))
    >>> for visits in ([("Apple", 20), ("Potato", 60)], [("Apple", 5)]):
    ...     _ = run.step(visits)
    >>> query(run, "SELECT product, n.total - o.total AS more FROM live.total n JOIN snapshot.total o USING (product) "
    ...            "ORDER BY product", at=1)
      product  more
    0   Apple     5
    1  Potato     0
    """
    tree = _select(text)
    names = {name for each in state.chain for own in each.states for name in (own, f"{each.name}.{own}")}
    if isinstance(at, Mapping) and (unknown := sorted(set(at) - names)):
        raise StateError(f"at: there is no state {shorten(unknown[0])}; the states are {', '.join(sorted(names))}")
    local = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    views: dict[tuple[str, str], pa.Table] = {}
    for table in tree.find_all(exp.Table):
        schema, name = table.db.lower(), table.name
        if not schema and name.lower() in local:
            continue
        if schema not in SCHEMAS:
            raise SqlError(
                f"{shorten(table.sql(dialect='duckdb'))} is not a table of state; write live.NAME for the state now, "
                "or snapshot.NAME for a snapshot, where NAME is the name of a state"
            )
        if table.args.get("version") or table.args.get("when"):
            raise SqlError(f"{schema}.{name}: AT is not supported; pass the id of a snapshot, as in sql(text, at=1)")
        if (schema, name.lower()) not in views:
            found = _named(names, name)
            chosen = None if schema == "live" else _id(state, found, at)
            views[schema, name.lower()] = state.contents(found, chosen).to_arrow()
    connection = duckdb.connect(config=_SAFE)
    try:
        connection.execute("CREATE SCHEMA live; CREATE SCHEMA snapshot")
        for (schema, name), rows in views.items():
            given, view = (exp.to_identifier(each, quoted=True).sql() for each in (f"{schema} {name}", name))
            connection.register(f"{schema} {name}", rows)
            connection.execute(f"CREATE VIEW {schema}.{view} AS FROM {given}")
        result: pd.DataFrame = connection.sql(text).df()
        return result
    except duckdb.Error as error:
        raise SqlError(f"{text}: {str(error).partition(chr(10))[0]}") from error
    finally:
        connection.close()


def _select(text: str) -> exp.Query:
    try:
        found = sqlglot.parse(text, dialect="duckdb")
    except (sqlglot.errors.ParseError, sqlglot.errors.TokenError) as error:
        raise SqlError(f"{shorten(text)}: {str(error).partition(chr(10))[0]}") from error
    if len(found) != 1 or not isinstance(found[0], exp.Query):
        raise SqlError(f"{shorten(text)} is not one SELECT; state is only read by SQL, and written by its operator")
    return found[0]


def _named(names: Iterable[str], name: str) -> str:
    """Return the name of a state as it was declared."""
    found = sorted(each for each in names if each.lower() == name.lower())
    if len(found) > 1:
        raise SqlError(f"{name}: the states {' and '.join(found)} have one name in SQL; put the operator's name before "
                       'it, as in live."Late.total"')  # fmt: skip
    return found[0] if found else name


def _id(state: Queryable, name: str, at: At) -> int:
    chosen = at.get(name) if isinstance(at, Mapping) else at
    if chosen is not None:
        return chosen
    if not state.snapshots:
        raise TimeError(f"snapshot.{name}: there is no snapshot yet; read live.{name}, or process an epoch first")
    return state.snapshots[-1]
