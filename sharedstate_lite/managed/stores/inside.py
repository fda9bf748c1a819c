"""Computation inside the store: PostgreSQL adds the values of an epoch to the state (S-Store's stored procedures).

    INSERT INTO total SELECT * FROM unnest(...)
    ON CONFLICT (plane) DO UPDATE SET value = total.value + excluded.value RETURNING plane, value

The state is not read first, and only the values of the epoch and the new state of its keys travel. The transaction also
writes the number of the epoch, which is the offset of the input. An epoch that is sent again therefore changes nothing.

`InsideStore.reduce` needs a relation with a reducer (sum, min or max) for each value column. A run does not call it: it
uses this store like `RemoteStore`, because its operators read the state that they change.

Source: Meehan et al., S-Store: Streaming meets transaction processing, VLDB 2015.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import psycopg
from psycopg import sql

from ...errors import StateError
from ...storage.encoding import Words
from .protocol import Relation
from .remote import RemoteStore, StateTable

_REDUCE = {
    "sum": "coalesce({old} + {new}, {old}, {new})",
    "min": "least({old}, {new})",
    "max": "greatest({old}, {new})",
}


class InsideStore(RemoteStore):
    """A store in PostgreSQL that reduces values itself.

    >>> from sharedstate_lite.plan import Column, Type
    >>> from sharedstate_lite.storage import Dictionary
    >>> columns = (Column("plane", Type.INT), Column("value", Type.BIGINT))
    >>> store = InsideStore()
    >>> store.open("late", [Relation("total", columns, key=1, reducers=("sum",))], Dictionary(), bins=8)
    >>> store.reduce({"total": np.array([[7, 8, 7], [10, 20, 5]])}, epoch=1)["total"].tolist()
    [[7, 8], [15, 20]]
    >>> store.reduce({"total": np.array([[7, 8, 7], [10, 20, 5]])}, epoch=1)["total"].tolist()      # sent again
    [[7, 8], [15, 20]]
    >>> store.close()
    """

    kind = "inside"

    def reduce(self, values: Mapping[str, Words], epoch: int) -> dict[str, Words]:
        """Reduce the rows of an epoch, int64[k, n], into each relation. Return the new rows of their keys.

        An epoch that the server has done before is not done again. Raises StateError for a relation without reducers.
        """
        out = {}
        for name in values:
            if not self._relations[name].reducers:
                raise StateError(f"{name} has no reducers; declare one of sum, min and max for each value column")
        try:
            with self._db.transaction():
                done = self._db.execute(self._at_version("SELECT epoch FROM {} FOR UPDATE")).fetchall()[0][0]
                for name, rows in values.items():
                    relation = self._relations[name]
                    if done >= epoch:
                        out[name] = self.read(name, np.unique(rows[: relation.key], axis=1))[1]
                    else:
                        query = reducing(self._tables[name], relation)
                        found = self._db.execute(query, self._values(name, rows), binary=True)
                        out[name] = self._words(name, found)
                offset = self._at_version("UPDATE {} SET version = %s, epoch = greatest(epoch, %s)")
                self._db.execute(offset, [self.version + 1, epoch])
        except psycopg.Error as error:
            raise self._failed(error, epoch) from error
        self.version += 1
        self.exchanges += 1
        return {name: rows.take(np.lexsort(rows[::-1]), axis=1) for name, rows in out.items()}


def reducing(table: StateTable, relation: Relation) -> sql.Composed:
    """Return the statement that reduces rows into a table. Rows of the same key are reduced first."""
    names, count, reducers = table.columns, relation.key + 1, relation.reducers
    old, new = sql.SQL("t.{}"), sql.SQL("excluded.{}")
    first = [
        sql.SQL("{}({})::{}").format(sql.SQL(how), name, kind)
        for how, name, kind in zip(reducers, names[count:], table.types[count:], strict=True)
    ]
    change = [
        sql.SQL("{} = ").format(name) + sql.SQL(_REDUCE[how]).format(old=old.format(name), new=new.format(name))
        for how, name in zip(reducers, names[count:], strict=True)
    ]
    query = (
        "INSERT INTO {} AS t SELECT {}, {} FROM unnest({}) AS k({}) GROUP BY {} "
        "ON CONFLICT ({}) DO UPDATE SET {} RETURNING {}"
    )
    keys, columns = sql.SQL(", ").join(names[:count]), sql.SQL(", ").join(names)
    rows = sql.SQL(", ").join(sql.SQL("t.{}").format(name) for name in names[1:])
    return sql.SQL(query).format(
        table.name, keys, sql.SQL(", ").join(first), table._given(len(names)), columns, keys,
        keys, sql.SQL(", ").join(change), rows,
    )  # fmt: skip
