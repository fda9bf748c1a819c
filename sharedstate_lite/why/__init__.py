"""Explains why a view has a row, and why it does not have another one, by rows of the base tables.

>>> import sharedstate_lite as ss
>>> catalog = ss.Catalog(info="product STRING, category STRING", visit="product STRING, user STRING, length INT")
>>> result = catalog.view('''CREATE VIEW result AS SELECT category, MAX(length) AS max_length
...                          FROM info JOIN visit USING (product) GROUP BY category''')
>>> engine = ss.engine("shared", [result])
>>> visits = [("Potato", "Ann", 60), ("Potato", "Ann", 60), ("Potato", "Eve", 60), ("Potato", "Bob", 50)]
>>> out = engine.step({"info": [(("Potato", "Vegetable"), +1)], "visit": [(row, +1) for row in visits]})
>>> engine.why("result", ("Vegetable", 60))
result has (Vegetable, 60) as of epoch 1: 2 reasons
  1  info (Potato, Vegetable)  this one
     visit (Potato, Ann, 60) x 2  this one, one copy is enough
  2  info (Potato, Vegetable)  this one
     visit (Potato, Eve, 60)  this one
>>> engine.why_not("result", ("Vegetable", 50))
result has no (Vegetable, 50) as of epoch 1:
  MAX(length) of category = Vegetable: 50 is there, but 60 is larger: info (Potato, Vegetable), visit (Potato, Ann, 60)
>>> engine.why_not("result", ("Fruit", ...))
result has no (Fruit, any) as of epoch 1:
  table info: no row of info with category = Fruit

All rows of a group that is counted, or one row where any one is enough; a LEFT JOIN without a partner; EXCEPT as
docs/sql.md writes it; and COUNT(DISTINCT):

>>> catalog = ss.Catalog(a="k INT, x INT", b="k INT")
>>> mean = catalog.view("CREATE VIEW mean AS SELECT k, AVG(x) AS m FROM a GROUP BY k")
>>> padded = catalog.view("CREATE VIEW padded AS SELECT a.k, b.k AS other FROM a LEFT JOIN b ON a.x = b.k")
>>> u = catalog.view("CREATE VIEW u AS SELECT k, 1 AS l, 0 AS r FROM a UNION ALL SELECT k, 0 AS l, 1 AS r FROM b")
>>> less = catalog.view("CREATE VIEW less AS SELECT k FROM u GROUP BY k HAVING SUM(l) > 0 AND SUM(r) = 0")
>>> once = catalog.view("CREATE VIEW once AS SELECT DISTINCT k, x FROM a")
>>> kinds = catalog.view("CREATE VIEW kinds AS SELECT k, COUNT(x) AS n FROM once GROUP BY k")
>>> engine = ss.engine("shared", [mean, padded, less, kinds])
>>> out = engine.step({"a": [((1, 2), +2), ((1, 5), +1)], "b": [((2,), +1)]})
>>> for view, row in (("mean", (1, 3.0)), ("padded", (1, None)), ("less", (1,)), ("kinds", (1, 2))):
...     print(engine.why(view, row))
mean has (1, 3.0) as of epoch 1: 1 reason
  1  a (1, 2) x 2  all of the group
     a (1, 5)  all of the group
padded has (1, NULL) as of epoch 1: 1 reason
  1  a (1, 5)  this one
     no row of b with k = 5
less has (1) as of epoch 1: 1 reason
  1  a (1, 2) x 2  all of the group
     a (1, 5)  all of the group
kinds has (1, 2) as of epoch 1: 1 reason
  1  a (1, 2) x 2  this one, one copy is enough
     a (1, 5)  this one

Modules, from the bottom:

    tables      the rows of each operator, with the input rows of each of them
    words       rows, columns and operators in words
    reasons     the smallest bags of base rows from which a row is computed
    explain     `why`: the reasons as an object that prints itself
    missing     `why_not`: where the candidates of a row ended
"""

from .explain import Because, Reason, Why, why
from .missing import Ended, WhyNot, why_not

__all__ = ["Because", "Ended", "Reason", "Why", "WhyNot", "why", "why_not"]
