"""SQL text to a plan. Everything that is not supported is refused by name.

>>> from sharedstate_lite.sql import Catalog, SqlError
>>> catalog = Catalog(info="product STRING, category STRING", visit="product STRING, length INT")
>>> view = catalog.view('''CREATE VIEW long_visits AS SELECT product, length
...                        FROM info JOIN visit USING (product) WHERE length > 10''')
>>> print(view.explain())
view long_visits(product STRING, length INT), key (product), not unique
map info.product AS product, length
  filter length > 10
    join on info.product = visit.product
      scan info(product STRING, category STRING)
      scan visit(product STRING, length INT)
>>> try:
...     catalog.view("CREATE VIEW latest AS SELECT product FROM visit ORDER BY length")
... except SqlError as error:
...     print(error)
view latest: ORDER BY is not supported: the rows of a view have no order; sort or slice the frame that read() returns

Modules, from the bottom:

    grammar       the supported syntax, and advice for the rest
    parse         text to a checked sqlglot tree; DuckDB's parser must accept it too
    type_rules    which types mix
    scope         tables and columns by name
    binder        expressions: names and types
    joins         FROM and WHERE to a tree of equality joins
    compile       a view to its plan
    catalog       relations and views by name

docs/sql.md lists what is supported. Source: the SQL standard for semantics, sqlglot for syntax; DuckDB is the reference
(see ``oracle``).
"""

from ..errors import RelationError, SqlError, ViewError
from .catalog import Catalog

__all__ = ["Catalog", "RelationError", "SqlError", "ViewError"]
