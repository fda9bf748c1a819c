"""Shared arrangements: a relation stored as sorted, immutable batches that many operators can read.

A *batch* holds the changes of one or more epochs, sorted by key. An *arrangement* is the list of batches of one
relation. Small batches are merged into larger ones with a bounded amount of work per epoch, so a lookup only has to
search a few batches. A *trace handle* keeps an epoch readable while batches are merged.

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

    multiplicity     limits on multiplicities, and sums and products that raise an error on overflow
    encoding         values encoded as int64 words, and the string dictionary
    batch            rows as one sorted matrix, with hashing, sorting and consolidation
    spine            the merge policy: when batches are merged
    arrangement      the batches of one relation, with lookups, inserts and trace handles
    string_gc        garbage collection of strings that are no longer used
    wire             rows serialized to bytes, and the bin that each row belongs to

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
