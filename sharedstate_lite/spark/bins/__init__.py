"""Bins of full and shared state: what the bins of an engine do in each round. This room does not need Spark.

A *bin* is an in-process engine that receives only the rows of the keys in one hash bucket. Megaphone migrates state in
bins. Here, Spark also groups rows by bin, and stores and places state by bin. A *stage* is one stateful operator of
Spark, and each of its bins runs the same operators of the dataflow. Rows move to the next stage only if their key
changes. For example, MAX by category over a join by product needs two stages:

>>> import sharedstate_lite as ss
>>> from sharedstate_lite.spark.bins.engine_spec import EngineSpec
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

    channels        what the number of a message's channel means
    staged          the shared dataflow, with copies of arrangements that two stages need
    route           Route: the stage of each operator, and the messages between stages
    engine_spec     EngineSpec: the description of an engine, which is stored with its checkpoint
    files           reads a relation's file in the tasks whose bins need its rows
    bin             ViewBin: processes epochs
    tables          shows a checkpoint's state as tables

Source: Hoffmann et al., Megaphone, VLDB 2019; Murray et al., Naiad, SOSP 2013; Spark's ``transformWithState``.
"""
