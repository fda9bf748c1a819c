"""Full and shared state: a graph of operators that process every change, run once per epoch.

The same plan can run in two ways. Under *full state* (Flink), each join stores its inputs, and each aggregate stores
the values that it may need again. Under *shared state* (differential dataflow, Materialize), operators read
arrangements that other operators and other views also read.

>>> import sharedstate_lite as ss
>>> sql = "SELECT category, MAX(length) AS top FROM info JOIN visit USING (product) GROUP BY category"
>>> for kind in ("full", "shared"):
...     catalog = ss.Catalog(info="product STRING, category STRING", visit="product STRING, length INT")
...     views = [catalog.view(f"CREATE VIEW {name} AS {sql}") for name in ("first", "second")]
...     engine = ss.engine(kind, views)
...     changes = engine.step({"visit": [(("Potato", n), +1) for n in range(100)], "info": [(("Potato", "x"), +1)]})
...     print(kind, engine.state()["rows"].sum())
full 505
shared 202

Modules, from the bottom:

    row_functions    filters and maps applied to rows
    labels           short labels for the rows of an operator
    operators        the operators: input, linear, union, arrange, join, delta join and reduce
    describe         the parts of the state, and the graph as tables
    dataflow         the graph: building it, running it, and reading views from it
    full             full state, in which operators do not share state
    shared           shared state, with one arrangement for each relation and key

Source: Carbone et al., State management in Apache Flink, VLDB 2017; McSherry et al., Shared Arrangements, VLDB 2020.
"""

from .dataflow import Dataflow
from .full import Full
from .shared import Shared

__all__ = ["Dataflow", "Full", "Shared"]
