"""Helpers for the notebooks, which run engines step by step, measure and compare them, and demonstrate sharing.

These modules use ``ss`` in the same way as a notebook. They return data frames of text and numbers, and leave
drawing to `show`.

>>> import sharedstate_lite as ss
>>> from sharedstate_lite.lessons import epochs
>>> catalog = ss.Catalog(visit="product STRING, length INT")
>>> longest = catalog.view("CREATE VIEW longest AS SELECT product, MAX(length) AS top FROM visit GROUP BY product")
>>> engine = ss.engine("full", [longest])
>>> visits = [("visit", ("Potato", 50), +1), ("visit", ("Potato", 60), +1), ("visit", ("Potato", 60), -1)]
>>> for emitted in epochs.log(engine, visits)["emitted"]:
...     print(emitted)
+I Potato 50
-U Potato 50, +U Potato 60
-U Potato 60, +U Potato 50
>>> print(engine.bill()["rows"]["working state"])  # the value 50 that MAX stores, and the row of the view
2

Modules:

    epochs           runs an engine message by message and lists what each message changed
    arrangements     shows the batches and entries of shared state, and the paths of a delta join
    reads            lists the messages of a read under partial state, and delivers them by hand or in every order
    measure          measures streams and reads in seconds, rows, bytes and hits
    task_clock       times functions of mapInPandas inside the tasks of a Spark job
    demo             prints the example of the assignment in a terminal
    history          opens the record of a graded run as views in Spark
    usecases         measures use cases of sharing inside a worker, and runs the one that reads a graph
    grand_challenge  the DEBS Grand Challenge 2022
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["arrangements", "demo", "epochs", "grand_challenge", "history", "measure", "reads", "task_clock", "usecases"]


def __getattr__(name: str) -> Any:
    # Import lazily, because usecases needs PySpark.
    if name in __all__:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
