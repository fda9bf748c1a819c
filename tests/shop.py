"""Relations and about 40 views over them, for the tests of the SQL compiler."""

from __future__ import annotations

from typing import Any

from sharedstate_lite.plan.view import View
from sharedstate_lite.sql.catalog import Catalog

RELATIONS = {
    "info": "product STRING, category STRING, price DOUBLE",
    "visit": "product STRING, user STRING, length INT",
    "cat": "category STRING, boss STRING, rank BIGINT",
    "person": "user STRING, boss STRING, age INT",
}
VIEWS = [
    "CREATE VIEW result AS SELECT category, MAX(length) AS max_length FROM info JOIN visit USING (product) "
    "GROUP BY category",
    "CREATE VIEW wide AS SELECT * FROM info JOIN visit USING (product)",
    "CREATE VIEW starred AS SELECT v.*, price AS p FROM visit v JOIN info i ON v.product = i.product",
    "CREATE VIEW chain AS SELECT * FROM visit JOIN info USING (product) JOIN cat USING (category)",
    "CREATE VIEW four AS SELECT p.age, c.rank, SUM(i.price) AS s FROM info i JOIN visit v ON i.product = v.product "
    "JOIN cat c ON c.category = i.category JOIN person p ON p.user = v.user AND p.boss = c.boss GROUP BY p.age, c.rank",
    "CREATE VIEW comma AS SELECT boss, COUNT(*) AS n FROM info, cat, visit "
    "WHERE info.product = visit.product AND cat.category = info.category AND length > 0 GROUP BY boss",
    "CREATE VIEW reordered AS SELECT i.product, p.age FROM info i, person p, visit v "
    "WHERE v.user = p.user AND v.product = i.product AND p.age < v.length",
    "CREATE VIEW mixed AS SELECT c.boss, p.age FROM cat c, person p LEFT JOIN visit v ON v.user = p.user "
    "WHERE p.boss = c.boss AND (v.length > 1 OR v.length IS NULL)",
    "CREATE VIEW late AS SELECT c.rank, p.age FROM cat c, person p LEFT JOIN visit v ON v.user = p.user "
    "WHERE v.product = c.boss",
    "CREATE VIEW late2 AS SELECT c.rank, p.age, x.price FROM cat c, person p JOIN visit v USING (user) "
    "LEFT JOIN info x ON x.product = v.product AND x.category = p.boss WHERE v.product = c.category",
    "CREATE VIEW self AS SELECT a.user AS u1, b.user AS u2 FROM visit a JOIN visit b USING (product) "
    "WHERE a.user < b.user AND a.length <> b.length",
    "CREATE VIEW outer_join AS SELECT i.product, v.user, v.length FROM info i LEFT JOIN visit v USING (product)",
    "CREATE VIEW outer_chain AS SELECT * FROM visit LEFT JOIN info USING (product) LEFT JOIN cat USING (category)",
    "CREATE VIEW outer_inner AS SELECT v.user, i.price, c.boss FROM visit v LEFT JOIN info i ON v.product = i.product "
    "JOIN cat c ON c.category = i.category AND c.rank > v.length",
    "CREATE VIEW inner_outer AS SELECT v.user, i.price, c.boss FROM visit v JOIN info i ON v.product = i.product AND "
    "v.length > 1 LEFT JOIN cat c ON c.category = i.category AND c.boss = v.user",
    "CREATE VIEW no_partner AS SELECT v.user, v.length FROM visit v LEFT JOIN info i USING (product) "
    "WHERE i.product IS NULL",
    "CREATE VIEW two_keys AS SELECT COUNT(*) AS n FROM info i JOIN cat c ON i.category = c.category "
    "AND i.product = c.boss",
    "CREATE VIEW int_bigint AS SELECT v.user, c.boss FROM visit v JOIN cat c ON v.length = c.rank",
    "CREATE VIEW totals AS SELECT COUNT(*) AS n, COUNT(length) AS c, SUM(length) AS s, AVG(length) AS a, "
    "MIN(length) AS lo, MAX(user) AS hi FROM visit",
    "CREATE VIEW constants AS SELECT COUNT(CAST(NULL AS INT)) AS none, COUNT(CAST('1' AS INT)) AS every, "
    "COUNT(NULL + length) AS n, SUM(CAST(NULL AS BIGINT)) AS s FROM visit",
    "CREATE VIEW sums AS SELECT category, SUM(price) AS s, AVG(price) AS a, COUNT(*) * 2 AS n, "
    "MAX(price) - MIN(price) AS spread FROM info GROUP BY category",
    "CREATE VIEW computed AS SELECT length % 2 AS odd, COUNT(*) AS n, SUM(length / 2) AS s FROM visit "
    "GROUP BY length % 2 HAVING COUNT(*) > 1 AND odd IS NOT NULL",
    "CREATE VIEW unselected AS SELECT COUNT(*) AS n, MAX(length) + 1 AS m FROM visit GROUP BY user, product",
    "CREATE VIEW having_only AS SELECT user FROM visit GROUP BY user HAVING SUM(length) > 3",
    "CREATE VIEW having_all AS SELECT COUNT(*) AS n FROM visit HAVING MAX(length) > 2",
    "CREATE VIEW once AS SELECT DISTINCT product, user FROM visit",
    "CREATE VIEW once2 AS SELECT DISTINCT length / 2 AS half, user AS a, user AS b FROM visit WHERE length > 0",
    "CREATE VIEW once3 AS SELECT DISTINCT COUNT(*) AS n FROM visit GROUP BY user",
    "CREATE VIEW both AS SELECT product, length FROM visit UNION ALL SELECT category, rank FROM cat "
    "UNION ALL (SELECT user, AVG(age) AS a FROM person GROUP BY user)",
    "CREATE VIEW cases AS SELECT user, CASE WHEN length > 1 THEN 'long' WHEN length IS NULL THEN 'none' END AS kind, "
    "CASE product WHEN 'a' THEN 1 WHEN 'b' THEN 2 ELSE 0 END AS code, COALESCE(length, 0) AS l FROM visit",
    "CREATE VIEW logic AS SELECT user FROM visit WHERE NOT (length IN (1, NULL) OR user BETWEEN 'a' AND 'b') "
    "OR length NOT IN (2, 3) AND product <> 'a'",
    "CREATE VIEW over_view AS SELECT r.category, c.boss, r.max_length FROM result r JOIN cat c USING (category)",
    "CREATE VIEW over_self AS SELECT a.category AS c1, b.category AS c2 FROM result a JOIN result b USING (max_length)",
    "CREATE VIEW over_all AS SELECT SUM(n) AS s, COUNT(*) AS k FROM comma",
    "CREATE VIEW over_union AS SELECT product, SUM(length) AS s FROM both GROUP BY product",
    "CREATE VIEW over_deep AS SELECT o.category, u.s FROM over_view o LEFT JOIN over_union u ON o.boss = u.product",
]  # fmt: skip


def shop() -> Catalog:
    """Return the catalog with all views."""
    catalog = Catalog(**RELATIONS)
    for sql in VIEWS:
        catalog.view(sql)
    return catalog


CATALOG = shop()


def bound(select: str, catalog: Catalog | None = None, **options: Any) -> View:
    """Return a view over the relations."""
    return (catalog or Catalog(**RELATIONS)).view(f"CREATE VIEW v AS {select}", **options)
