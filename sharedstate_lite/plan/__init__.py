"""Contains the logical plan of a view: a tree of operators. SQL is compiled into plans, and every engine runs them.

>>> import sharedstate_lite as ss
>>> catalog = ss.Catalog(info="product STRING, category STRING", visit="product STRING, length INT")
>>> view = catalog.view('''CREATE VIEW longest AS SELECT category, MAX(length) AS top
...                        FROM info JOIN visit USING (product) GROUP BY category''')
>>> print(view.explain())
view longest(category STRING, top INT), key (category), unique
reduce max(length) AS top by category
  map category, length
    join on info.product = visit.product
      scan info(product STRING, category STRING)
      scan visit(product STRING, length INT)

Modules, from the bottom:

    nodes      column types, expressions and operators
    lineage    finds the input column that an output column copies
    explain    converts plans to text
    view       a plan with a name and a key
    graph      describes an engine's operators and edges in DataFrames

Source: the operators of differential dataflow (McSherry et al., CIDR 2013).
"""

from .nodes import Agg, Call, Col, Column, Expr, Filter, Join, Lit, Map, Node, Reduce, Scan, Schema, Type, Union
from .view import View

__all__ = [
    "Agg",
    "Call",
    "Col",
    "Column",
    "Expr",
    "Filter",
    "Join",
    "Lit",
    "Map",
    "Node",
    "Reduce",
    "Scan",
    "Schema",
    "Type",
    "Union",
    "View",
]
