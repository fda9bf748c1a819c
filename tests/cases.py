"""The views that the rules are tested with: joins, aggregates, unions, views over views, over small value domains.

Domains are small, so that collisions, duplicates, ties and NULL keys occur in nearly every drawn sequence.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Any

import sharedstate_lite as ss

RELATIONS = {
    "info": "product STRING, category STRING",
    "visit": "product STRING, user STRING, length INT",
    "person": "user STRING, city STRING",
    "place": "city STRING, country STRING",
    "price": "product STRING, cents BIGINT",
    "rating": "product STRING, user STRING, stars INT",
    "sample": "k STRING, i INT, n BIGINT, x DOUBLE, s STRING, b BOOLEAN, d DATE, t TIMESTAMP",
}
"""One catalog for every case; only the relations that a case's views use get rows."""

KEYS = ["a", "b", "", None]
TEXTS = ["a", "b", "\uffff", "\U00010000", None]
"""The last two strings sort one way by code point and the other way by UTF-16 unit."""
INTS = [-1, 0, 1, 2, None]

DOMAINS: dict[str, list[Any]] = {
    "product": KEYS,
    "user": KEYS,
    "k": KEYS,
    "category": TEXTS,
    "city": KEYS,
    "country": TEXTS,
    "s": TEXTS,
    "length": INTS,
    "stars": INTS,
    "i": INTS,
    "cents": [-(2**40), 0, 7, 2**40, None],
    "n": [-(2**40), 0, 7, 2**40, None],
    "x": [0.1, 0.2, -0.3, 1e16, -1e16, 1e-300, -0.0, None],
    "b": [True, False, None],
    "d": [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29), None],
    "t": [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 1, 1, 12), None],
}
"""Column name -> the values it takes."""


@dataclass(frozen=True)
class Case:
    """Views in the order of declaration; the last one is ``result``.

    ``partial`` is False if partial state refuses the key; ``multi`` is True if the joins share one key, so that full
    state can run them without intermediate state.
    """

    sql: tuple[str, ...]
    key: tuple[str, ...] | None = None
    partial: bool = True
    multi: bool = True

    def declare(self) -> tuple[ss.Catalog, list[ss.View]]:
        """A fresh catalog with all relations, and this case's views."""
        catalog = ss.Catalog(**RELATIONS)
        return catalog, self.declare_in(catalog, "result")

    def declare_in(self, catalog: ss.Catalog, name: str) -> list[ss.View]:
        """The views of this case in a catalog: the last one under ``name``, those below it under derived names."""
        below = "v" if name == "result" else f"{name}_"
        out = []
        for n, sql in enumerate(self.sql):
            last = n == len(self.sql) - 1
            text = re.sub(r"\bv(?=\d\b)", below, sql)
            key = list(self.key) if self.key is not None and last else None
            out.append(catalog.view(f"CREATE VIEW {name if last else f'{below}{n}'} AS {text}", key))
        return out


def _one(sql: str, **more: Any) -> Case:
    return Case((sql,), **more)


CASES = {
    "shopping": _one("SELECT category, MAX(length) AS longest FROM info JOIN visit USING (product) GROUP BY category"),
    "minimum": _one("SELECT product, MIN(length) AS least, MAX(length) AS most FROM visit GROUP BY product"),
    "chain of three, two keys": _one(
        "SELECT category, city, COUNT(*) AS n, SUM(length) AS total FROM info JOIN visit USING (product) "
        "JOIN person USING (user) GROUP BY category, city",
        multi=False,
    ),
    "chain of four": _one(
        "SELECT country, MIN(length) AS least, COUNT(category) AS n FROM info JOIN visit USING (product) "
        "JOIN person USING (user) JOIN place USING (city) GROUP BY country",
        multi=False,
    ),
    "chain of three, one key": _one(
        "SELECT category, user, cents FROM info JOIN visit USING (product) JOIN price USING (product)"
    ),
    "composite key": _one(
        "SELECT v.product, v.user, length, stars FROM visit v JOIN rating r ON v.product = r.product "
        "AND v.user = r.user"
    ),
    "triangle": _one(
        "SELECT i.category, r.stars, p.cents FROM info i, rating r, price p "
        "WHERE i.product = r.product AND r.product = p.product AND i.product = p.product"
    ),
    "cycle": _one(
        "SELECT v.length, r.stars, p.city FROM visit v, rating r, person p "
        "WHERE v.product = r.product AND r.user = p.user AND v.user = p.user",
        multi=False,
    ),
    "self-join": _one(
        "SELECT a.user AS one, b.user AS other, a.length FROM visit a JOIN visit b ON a.product = b.product"
    ),
    "self-join on two keys": _one(
        "SELECT a.product, COUNT(*) AS n FROM visit a JOIN visit b ON a.product = b.user GROUP BY a.product"
    ),
    "extremes of both sides of a self-join": _one(
        "SELECT a.user, MAX(a.length) AS most, MIN(b.length) AS least FROM visit a JOIN visit b "
        "ON a.product = b.product GROUP BY a.user"
    ),
    "left join": _one("SELECT user, category, length FROM visit LEFT JOIN info USING (product)"),
    "left join, counted": _one(
        "SELECT user, COUNT(category) AS known, COUNT(*) AS n FROM visit LEFT JOIN info USING (product) GROUP BY user"
    ),
    "left join by its right side": _one(
        "SELECT category, SUM(length) AS total FROM visit LEFT JOIN info USING (product) GROUP BY category",
        partial=False,
    ),
    "left joins in a chain": _one(
        "SELECT v.user, category, city, length FROM visit v LEFT JOIN info i ON v.product = i.product "
        "LEFT JOIN person p ON v.user = p.user"
    ),
    "left join of a left join's right side": _one(
        "SELECT user, person.city, country FROM rating LEFT JOIN person USING (user) "
        "LEFT JOIN place ON person.city = place.city"
    ),
    "join above a left join": _one(
        "SELECT v.user, category, cents FROM visit v LEFT JOIN info i ON v.product = i.product "
        "JOIN price p ON v.product = p.product"
    ),
    "extreme above two joins with one relation": _one(
        "SELECT MAX(r.user) AS last, COUNT(*) AS n FROM rating r LEFT JOIN info i ON r.product = i.product "
        "JOIN info j ON i.product = j.product",
    ),
    "distinct": _one("SELECT DISTINCT user, product FROM visit"),
    "distinct above a join": _one("SELECT DISTINCT category, user FROM info JOIN visit USING (product)"),
    "union all": _one("SELECT user FROM visit UNION ALL SELECT user FROM person"),
    "union of one relation": _one(
        "SELECT user, length FROM visit WHERE length > 0 UNION ALL SELECT product AS user, length FROM visit"
    ),
    "union of aggregates": _one(
        "SELECT user, COUNT(*) AS n FROM visit GROUP BY user UNION ALL "
        "SELECT user, SUM(stars) AS n FROM rating GROUP BY user"
    ),
    "aggregates of whole numbers": _one(
        "SELECT k, MAX(i) AS a, MIN(i) AS c, SUM(i) AS e, COUNT(i) AS f, AVG(i) AS g, MAX(n) AS h, MIN(n) AS j, "
        "SUM(n) AS l, COUNT(n) AS m, AVG(n) AS o, COUNT(*) AS p FROM sample GROUP BY k"
    ),
    "aggregates of doubles": _one(
        "SELECT k, MAX(x) AS a, MIN(x) AS c, SUM(x) AS e, COUNT(x) AS f, AVG(x) AS g FROM sample GROUP BY k"
    ),
    "extremes of other types": _one(
        "SELECT k, MAX(s) AS a, MIN(s) AS c, MAX(b) AS e, MIN(b) AS f, MAX(d) AS g, MIN(d) AS h, MAX(t) AS j, "
        "MIN(t) AS l, COUNT(s) AS m, COUNT(b) AS o FROM sample GROUP BY k"
    ),
    "groups of every type": _one("SELECT x, b, d, t, COUNT(*) AS n FROM sample GROUP BY x, b, d, t"),
    "having": _one(
        "SELECT product, COUNT(*) AS n, MAX(length) AS most FROM visit GROUP BY product "
        "HAVING COUNT(*) > 1 AND MAX(length) < 2"
    ),
    "expressions": _one(
        "SELECT user, CASE WHEN length > 0 THEN length * 2 WHEN length IS NULL THEN -7 ELSE length - 1 END AS c, "
        "COALESCE(length, 0) + 1 AS d, length / 2 AS half, length % 2 AS odd, product IN ('a', 'b') AS known, "
        "length BETWEEN 0 AND 1 AS small, CAST(length AS DOUBLE) AS x, NOT (length = 1 OR user = 'a') AS no "
        "FROM visit WHERE NOT (length = 2 AND user = 'b')"
    ),
    "grouped by an expression": _one(
        "SELECT length % 2 AS odd, SUM(length + 1) AS total, MAX(length * length) AS most FROM visit "
        "GROUP BY length % 2",
        partial=False,
    ),
    "filtered below": _one(
        "SELECT category, MAX(length) AS longest, COUNT(*) AS n FROM info JOIN visit USING (product) "
        "WHERE length > 0 AND category <> 'b' GROUP BY category"
    ),
    "key that is not all selected": _one("SELECT product, MAX(length) AS most FROM visit GROUP BY product, user"),
    "keyed by another column": _one(
        "SELECT product, category, user, length FROM info JOIN visit USING (product)", key=("user", "product")
    ),
    "global": _one("SELECT COUNT(*) AS n, SUM(length) AS total, MAX(length) AS most, AVG(length) AS mean FROM visit"),
    "global above a join": _one("SELECT COUNT(*) AS n, MIN(category) AS first FROM info JOIN visit USING (product)"),
    "aggregate of an aggregate": Case(
        (
            "SELECT product, user, COUNT(*) AS n FROM visit GROUP BY product, user",
            "SELECT product, MAX(n) AS most, SUM(n) AS visits, COUNT(*) AS users FROM v0 GROUP BY product",
        )
    ),
    "join of an aggregate": Case(
        (
            "SELECT user, COUNT(*) AS visits, MAX(length) AS longest FROM visit GROUP BY user",
            "SELECT product, r.user, stars, visits, longest FROM rating r JOIN v0 ON r.user = v0.user",
        )
    ),
    "left join of an aggregate": Case(
        (
            "SELECT product, SUM(length) AS total FROM visit GROUP BY product",
            "SELECT category, i.product, total FROM info i LEFT JOIN v0 ON i.product = v0.product",
        )
    ),
    "aggregate joined with itself": Case(
        (
            "SELECT product, user, COUNT(*) AS n FROM visit GROUP BY product, user",
            "SELECT product, MAX(n) AS most FROM v0 GROUP BY product",
            "SELECT v0.product, v0.user, v0.n FROM v0 JOIN v1 ON v0.product = v1.product AND v0.n = v1.most",
        ),
        partial=False,
    ),
    "incongruent": Case(
        (
            "SELECT user, COUNT(*) AS n FROM rating GROUP BY user",
            "SELECT product, v.user, n FROM visit v JOIN v0 ON v.user = v0.user",
        ),
        key=("product",),
    ),
    "distinct of a union": Case(
        (
            "SELECT user, product FROM visit UNION ALL SELECT user, product FROM rating",
            "SELECT DISTINCT user FROM v0",
        )
    ),
    "view over views over views": Case(
        (
            "SELECT product, user, length FROM visit WHERE length >= 0",
            "SELECT category, user, length FROM info JOIN v0 USING (product)",
            "SELECT category, user, SUM(length) AS total FROM v1 GROUP BY category, user",
            "SELECT category, MAX(total) AS best FROM v2 GROUP BY category",
        )
    ),
}
"""Every case by name."""
