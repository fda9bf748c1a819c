"""The kit's data: the seed's two tables, a person's own files, and the shop at any size.

    from data import seed, load, declaration, generate, epochs, make

    seed()                         the two tables of the seed (data/seed/*.csv)
    load(path, schema)             a CSV or Parquet file or folder, checked, ready for step
    declaration(table)             what a catalog takes to declare a table's columns
    generate(visits=..., ...)      the shop at any size, epoch by epoch, in this process
    make(out, visits=..., ...)     the same as Parquet, made by Spark: `python -m data make`
    epochs(folder)                 what was made, epoch by epoch, checked

    tables.py     seed, declaration       files.py     load
    csvfile.py    CSV as text             cells.py     text as values        typed.py   Parquet as values
    limits.py     what may be asked for   spec.py      what to generate
    schedule.py   who comes when, and goes
    rows.py       generate                draws.py     chance without state: hashes, shuffles, Zipf
    pipeline.py   make, on Spark          folder.py    epochs; manifest, checksums, order in time
    progress.py   how far it is           interrupts.py  signals as exceptions
    __main__.py   the command line

And what the experiments on sharing inside a worker read, each as a DataFrame of any size and as a table:

    ids.py        skewed ids              products.py  products and categories, also into PostgreSQL
    graphs.py     power-law graphs        ticks.py     market ticks
    numbered.py   rows by their number, on Spark or here

Importing this imports no pyspark; make does.
"""

from .files import load
from .folder import epochs
from .pipeline import make
from .rows import generate
from .spec import Spec
from .tables import SCHEMA, declaration, seed

__all__ = ["SCHEMA", "Spec", "declaration", "epochs", "generate", "load", "make", "seed"]
