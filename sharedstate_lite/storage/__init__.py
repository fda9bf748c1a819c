"""A relation as sorted, immutable batches that many operators can read: the shared arrangement.

A *batch* holds the changes of one or more epochs, sorted by key. An *arrangement* is the list of batches of one
relation. Small batches are merged into larger ones, a bounded amount of work per epoch, so a lookup searches few of
them. A *trace handle* keeps an epoch readable while batches are merged.

>>> import sharedstate_lite as ss
>>> catalog = ss.Catalog(visit="product STRING, length INT")
>>> longest = catalog.view("CREATE VIEW longest AS SELECT product, MAX(length) AS top FROM visit GROUP BY product")
>>> engine = ss.engine("shared", [longest])
>>> changes = engine.step({"visit": [(("Potato", 50), +1), (("Potato", 60), +1)]})
>>> with engine.handle():                                              # hold epoch 1
...     changes = engine.step({"visit": [(("Potato", 60), -1)]})       # epoch 2
...     for epoch in (1, 2):
...         print(epoch, engine.read("longest", at=epoch).values.tolist())
1 [['Potato', 60]]
2 [['Potato', 50]]

Modules, from the bottom:

    multiplicity     limits of a row's multiplicity, and sums of diffs that cannot wrap around
    short_strings    a hash table from short strings to codes, for whole columns
    encoding         values as int64 words, and the dictionary of strings
    batch            rows as one sorted matrix: hashing, sorting, consolidating
    spine            when batches are merged
    arrangement      the batches of one relation: lookups, inserts, trace handles
    string_gc        removing strings that no row uses
    wire             rows as bytes, and the bin of a row

Source: McSherry et al., Shared Arrangements, VLDB 2020; O'Neil et al., The log-structured merge-tree, 1996.
"""

from .arrangement import Arrangement, BatchInfo, TraceHandle
from .batch import Batch, Delta, Layout
from .encoding import NULL, Dictionary, DictionaryRef, Words

__all__ = [
    "NULL",
    "Arrangement",
    "Batch",
    "BatchInfo",
    "Delta",
    "Dictionary",
    "DictionaryRef",
    "Layout",
    "TraceHandle",
    "Words",
]
