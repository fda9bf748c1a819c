"""Input tables: the example's two tables, your own files, and a generated shop of any size.

    from sharedstate_lite.data import seed, load, declaration, generate, epochs, make

    seed()                         the two tables of the example (data/seed/*.csv)
    load(path, schema)             read a CSV or Parquet file or folder and check it; pass the result to step
    declaration(table)             declare a table's columns, for a catalog
    generate(visits=..., ...)      generate a shop of any size in this process, epoch by epoch
    make(out, visits=..., ...)     write the same shop as Parquet files, with Spark: `sharedstate data make`
    epochs(folder)                 read such files epoch by epoch, and check them

>>> from sharedstate_lite.data import declaration, generate
>>> for epoch, changes in generate(visits=100, products=10, epochs=2):
...     print(epoch, {relation: table.num_rows for relation, table in changes.items()})
1 {'info': 10, 'visit': 50}
2 {'info': 0, 'visit': 59}
>>> declaration(changes["visit"])
'product STRING, user STRING, length INT'

Modules, from the bottom:

    limits          checks of numeric parameters
    csv_text        CSV files as strings
    text_values     strings as values of the kit's types
    arrow_values    Parquet columns as values of the kit's types
    files           `load`
    tables          the example's tables, and `declaration`
    draws           random numbers without state
    spec            the parameters of a shop
    schedule        the epoch in which each visit is inserted, changed and deleted
    rows            `generate`
    folder          the folder of a shop: writing, reading and checking it
    progress        the progress of the command
    interrupts      signals during the command
    pipeline        `make`
    numbered        tables whose rows are computed from their row numbers
    ids, graphs, ticks, products    such tables, for the sharing experiments
    flights         the flights that left New York in 2013

Importing this package does not import PySpark.
"""

from .files import load
from .folder import epochs
from .pipeline import make
from .rows import generate
from .spec import Spec
from .tables import SCHEMA, declaration, seed

__all__ = ["SCHEMA", "Spec", "declaration", "epochs", "generate", "load", "make", "seed"]
