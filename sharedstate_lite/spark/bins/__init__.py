"""What runs in one bin of a stage, and what travels between bins. Nothing in this room needs Spark.

A *bin* is an in-process engine that receives only the rows of the keys in one hash bucket. Megaphone migrates state in
bins; here a bin is also the unit that Spark groups by, stores and places. A *stage* is one stateful operator of Spark:
each of its bins runs some operators of the dataflow. Rows move to the next stage only if their key changes, so MAX by
category over a join by product takes two stages:

>>> import sharedstate_lite as ss
>>> from sharedstate_lite.spark.bins import EngineSpec
>>> catalog = ss.Catalog(info="product STRING, category STRING", visit="product STRING, length INT")
>>> longest = catalog.view(
...     "CREATE VIEW longest AS SELECT category, MAX(length) AS top "
...     "FROM info JOIN visit USING (product) GROUP BY category"
... )
>>> route = EngineSpec("shared", [longest]).route()
>>> for stage in (1, 2):
...     print(stage, sorted(route.parts(stage)))
1 ['info[product]', 'visit[product]']
2 ['longest', 'π(info ⋈ visit)[category]']

Modules, from the bottom:

    messages        BinMessage, and what a bin needs from its worker
    strings         the string dictionary of a worker
    bin_placement   grouping keys that spread bins evenly over partitions
    staged          shared state for stages
    route           Route: which stage an operator is in, and which messages travel
    engine_spec     EngineSpec: the description of an engine, kept beside a checkpoint
    files           a relation's file, read by the tasks that have bins for its rows
    bin             Bin: an epoch, and its state as runs in a store
    tables          a checkpoint's state as tables
    worker_cache    the bins that a worker keeps in memory
    worker_rpc      calls to the other workers of this host

Source: Hoffmann et al., Megaphone, VLDB 2019; Murray et al., Naiad, SOSP 2013; Spark's ``transformWithState``.
"""

from __future__ import annotations

from typing import Any

from ...system.lazy import lazy_name

_HOME = {"Bin": "bin", "BinMessage": "messages", "EngineSpec": "engine_spec", "BinFactory": "bin", "Route": "route"}


def __getattr__(name: str) -> Any:
    return lazy_name(__name__, _HOME, name)
