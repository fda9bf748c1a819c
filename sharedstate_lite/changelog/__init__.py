"""Contains `Changes`, the rows with diffs that engines emit, and the code that reads and checks input rows.

A *diff* is the number of copies of a row that are inserted (+1, +2, ...) or retracted (-1, -2, ...). A `Changes` object
contains the consolidated rows and diffs of one view at one time. If the view has a unique key, a retraction and an
insertion of the same key are shown as an update (-U, +U). The input of an engine can be pairs of row and diff, a pandas
DataFrame, an Arrow table or a `Changes` object.

>>> import sharedstate_lite as ss
>>> catalog = ss.Catalog(visit="product STRING, length INT")
>>> longest = catalog.view("CREATE VIEW longest AS SELECT product, MAX(length) AS top FROM visit GROUP BY product")
>>> engine = ss.engine("shared", [longest])
>>> changes = engine.step({"visit": [(("Potato", 50), +1)]})
>>> changes = engine.step({"visit": [(("Potato", 60), +1)]})["longest"]
>>> changes.kinds(), changes.to_pandas().values.tolist()                # product, top, time, diff
(['-U', '+U'], [['Potato', 50, 2, -1], ['Potato', 60, 2, 1]])

Modules, from the bottom:

    convert        converts columns to int64 words and back
    read_tables    converts rows, DataFrames and Arrow tables to a delta of one relation
    changes        the class `Changes`
    validate       checks the input of one step against the catalog and the base tables

Sources: Budiu et al., DBSP, VLDB 2023 (Z-sets), and the changelog of Flink SQL (row kinds).
"""

from .changes import Changes

__all__ = ["Changes"]
