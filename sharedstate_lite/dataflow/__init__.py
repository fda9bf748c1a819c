"""Full and shared state: a graph of operators that see every change, run once per epoch.

The same plan runs in two ways. Under *full state* (Flink) each join keeps its inputs, and each aggregate the values
that it may need again. Under *shared state* (differential dataflow, Materialize) operators read arrangements that
other operators and other views read too.

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
    labels           short names of operators' rows
    operators        input, linear, union, arrange, join, delta join, reduce
    describe         the state parts and the graph, as tables
    dataflow         the graph: built, run, read
    full             full state: nothing is shared
    shared           shared state: arrangements by relation and key

Source: Carbone et al., State management in Apache Flink, VLDB 2017; McSherry et al., Shared Arrangements, VLDB 2020.
"""

from .dataflow import Dataflow
from .full import Full
from .shared import Shared

__all__ = ["Dataflow", "Full", "Shared"]
