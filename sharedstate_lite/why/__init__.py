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
  MAX(length) of category = Vegetable: 50 is there, but 60 is larger: (Vegetable, 60)
>>> engine.why_not("result", ("Fruit", None))
result has no (Fruit, any) as of epoch 1:
  table info: no row of info with category = Fruit

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
