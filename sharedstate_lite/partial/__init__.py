"""Partial state: only keys that have been read are computed and cached. All other keys are holes.

A read of a hole sends an *upquery* up to the base tables, and the response *fills* the key on its way down. After that,
changes keep the key up to date, until an *eviction* turns it into a hole again. The memory used depends on the keys
that are read, and not on all keys that exist.

>>> import sharedstate_lite as ss
>>> catalog = ss.Catalog(visit="product STRING, length INT")
>>> longest = catalog.view("CREATE VIEW longest AS SELECT product, MAX(length) AS top FROM visit GROUP BY product")
>>> engine = ss.engine("partial", [longest])
>>> changes = engine.step({"visit": [(("Potato", 50), +1), (("Carrot", 9), +1)]})
>>> engine.filled("longest")
[]
>>> engine.read("longest", key="Potato").values.tolist(), engine.filled("longest")
([['Potato', 50]], [('Potato',)])
>>> engine.step({"visit": [(("Potato", 60), +1), (("Carrot", 10), +1)]})["longest"]       # Carrot is a hole
Changes(time=2, rows=2: -U ('Potato', 50), +U ('Potato', 60))
>>> engine.evict("longest", key="Potato")
{'longest.group1': [('Potato',)], 'longest': [('Potato',)]}

Modules, from the bottom:

    filled_keys    a set of filled keys, with the last use of each
    failing_rows   rows for which an expression raises an error
    nodes          edges, and these operators: base table, linear, union and reader
    messages       the messages in flight, and results that wait for them
    base_reads     lookups in base tables as of a position
    join           the join operator
    reduce         the operator for GROUP BY and DISTINCT
    chains         chains of operators that are queried by the same key
    describe       names, filled keys and the graph, for ``state()`` and pictures
    budget         evicting the least recently used keys to stay within a budget
    build          building and removing operators
    scheduler      delivering messages, automatically or one at a time
    partial        the engine

Source: Gjengset et al., Noria, OSDI 2018; Gjengset, Partial State in Dataflow-Based Materialized Views, MIT 2021.
"""

from .messages import MessageInfo, PendingResult
from .partial import Partial

__all__ = ["MessageInfo", "Partial", "PendingResult"]
