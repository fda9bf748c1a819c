"""The driver's side of the engine on Spark: sending calls to the bins, and copying and reading checkpoints.

The driver does not store rows. It sends each epoch as a file to one streaming query, and the state stays in Spark's
state store. The state can therefore be read as tables while an engine runs, after it is closed, and after ``kill -9``.

>>> import tempfile
>>> import sharedstate_lite as ss
>>> catalog = ss.Catalog(visit="product STRING, length INT")
>>> longest = catalog.view("CREATE VIEW longest AS SELECT product, MAX(length) AS top FROM visit GROUP BY product")
>>> with tempfile.TemporaryDirectory() as folder:
...     with ss.spark.engine("full", [longest], ss.spark.session(), checkpoint=folder, bins=1) as engine:
...         changes = engine.step({"visit": [(("Potato", 50), +1), (("Potato", 60), +1)]})
...     print(ss.spark.batches(folder)[["batch", "kind", "epoch"]].values.tolist())
...     print(ss.spark.state(folder, "longest").values.tolist())
[[0, 'epoch', 1]]
[['Potato', 60, 1]]

Modules, from the bottom:

    driver            EngineDriver: implements the engine interface with messages to the bins; does not need Spark
    checkpoint_copy   writes copies of a checkpoint, and verifies a copy before each use
    store             EngineReader: reads state and changes from Spark's state store as tables
    rescaling         changes the number of partitions of a stopped query
    explain           shows Spark's plan as a table with one row per stateful operator
    change_views      computes a new set of views from the existing base tables
    engine            SparkEngine: an EngineDriver that runs one streaming query

Source: state is read with Spark's ``statestore`` data source (Spark 4). A checkpoint is consistent because each
micro-batch commits its input and its state together (Armbrust et al., Structured Streaming, SIGMOD 2018).
"""
