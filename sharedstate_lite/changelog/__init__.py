"""Changes: rows with diffs, as callers pass them in and get them out; their values checked and converted.

A *diff* is how many copies of a row came (+1, +2, ...) or went (-1, ...). `Changes` holds the consolidated rows
and diffs of one view at one time; under a unique key, a retraction and an insertion show as an update (-U, +U).
Input may be pairs of row and diff, a pandas frame, an Arrow table or Changes.

>>> import sharedstate_lite as ss
>>> catalog = ss.Catalog(visit="product STRING, length INT")
>>> longest = catalog.view("CREATE VIEW longest AS SELECT product, MAX(length) AS top FROM visit GROUP BY product")
>>> engine = ss.engine("shared", [longest])
>>> changes = engine.step({"visit": [(("Potato", 50), +1)]})
>>> changes = engine.step({"visit": [(("Potato", 60), +1)]})["longest"]
>>> changes.kinds(), changes.to_pandas().values.tolist()                # product, top, time, diff
(['-U', '+U'], [['Potato', 50, 2, -1], ['Potato', 60, 2, 1]])

Modules, from the bottom:

    convert        columns to int64 words, and back
    read_tables    rows, frames and tables as a delta of one relation
    changes        Changes: what engines emit
    validate       the input of one step, checked against catalog and base tables

Source: Budiu et al., DBSP, VLDB 2023 (Z-sets); the changelog of Flink SQL (row kinds).
"""

from .changes import Changes

__all__ = ["Changes"]
