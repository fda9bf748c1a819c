"""What several notebooks call: engines run step by step, measured, and compared; the use cases of sharing.

These modules use ``ss`` as a notebook does. They return frames of text and numbers and draw nothing.

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
>>> epochs.own_rows(engine)                       # 50, as input of MAX, and the row of the view
2

Modules:

    epochs           an engine run message by message: what each changed
    arrangements     the batches of shared state, and a delta join read at wrong times
    reads            the messages of a read under partial state, delivered by hand and in every order
    measure          streams, reads and recovery: seconds, rows, bytes, hits
    benchmark        one sequence of work for all engines, in process and on Spark
    demo             the example of the assignment in a terminal
    usecases         the use cases of sharing inside a worker, without and with sharing
    grand_challenge  the DEBS Grand Challenge 2022
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["arrangements", "benchmark", "demo", "epochs", "grand_challenge", "measure", "reads", "usecases"]


def __getattr__(name: str) -> Any:
    # Lazy: usecases needs PySpark.
    if name in __all__:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
