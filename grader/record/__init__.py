"""One run as tables: what was ordered, sent, answered, read, killed. Written and read by this room alone.

`tables` is the record in memory, growing while a run lasts; `folder` is the record on disk, with its schema.
"""

from .folder import VERSION, load, save
from .tables import Record, Shot, Table

__all__ = ["VERSION", "Record", "Shot", "Table", "load", "save"]
