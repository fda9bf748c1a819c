"""Compiles SQL text into a plan. Unsupported SQL is rejected with an error that names the unsupported part.

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
...     catalog.view("CREATE VIEW apples AS SELECT product FROM visit WHERE product LIKE 'A%'")
... except SqlError as error:
...     print(error)
view apples: LIKE is not supported: there are no string functions; compute the value before you insert the row

Modules, from the bottom:

    grammar       lists the supported syntax, and what to write instead of common unsupported syntax
    parse         parses text into a checked sqlglot tree; DuckDB's parser must accept the text too
    type_rules    finds the common type of several expressions
    scope         resolves the names of tables and columns
    binder        resolves the names in an expression and checks its types
    joins         compiles FROM and WHERE into a tree of equality joins
    compile       compiles a view into its plan
    catalog       stores relations and views by name

docs/sql.md lists the supported SQL. Sources: the SQL standard for the semantics, and sqlglot for the syntax. The
tests use DuckDB as the reference implementation (see ``oracle``).
"""

from ..errors import RelationError, SqlError, ViewError
from .catalog import Catalog

__all__ = ["Catalog", "RelationError", "SqlError", "ViewError"]
