"""Tables for the kit: the example's two tables, your own files, and the shop at any size.

    from data import seed, load, declaration, generate, epochs, make

    seed()                         the two tables of the example (data/seed/*.csv)
    load(path, schema)             a CSV or Parquet file or folder, checked, ready for step
    declaration(table)             the declaration of a table's columns for a catalog
    generate(visits=..., ...)      the shop at any size, epoch by epoch, in this process
    make(out, visits=..., ...)     the same as Parquet, written by Spark: `python -m data make`
    epochs(folder)                 a folder that was made, epoch by epoch, checked

>>> from data import declaration, generate
>>> for epoch, changes in generate(visits=100, products=10, epochs=2):
...     print(epoch, {relation: table.num_rows for relation, table in changes.items()})
1 {'info': 10, 'visit': 50}
2 {'info': 0, 'visit': 59}
>>> declaration(changes["visit"])
'product STRING, user STRING, length INT'

Modules, from the bottom: ``limits`` checks numbers; ``csv_text`` reads CSV as text, ``text_values`` and
``arrow_values`` convert text and Parquet to the kit's types, ``files`` is `load`, ``tables`` the example and
`declaration`; ``draws`` is stateless randomness, ``spec`` the shop's parameters, ``schedule`` the epoch of each event,
``rows`` is `generate`; ``folder`` reads and checks a made folder, ``progress`` and ``interrupts`` serve the command,
``pipeline`` is `make`. Tables of any size for the experiments on sharing: ``numbered`` computes rows from their
numbers, for ``ids``, ``graphs``, ``ticks`` and ``products``.

Importing this package imports no PySpark.
"""

from .files import load
from .folder import epochs
from .pipeline import make
from .rows import generate
from .spec import Spec
from .tables import SCHEMA, declaration, seed

__all__ = ["SCHEMA", "Spec", "declaration", "epochs", "generate", "load", "make", "seed"]
