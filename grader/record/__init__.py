"""The record of one run: its orders, requests, answers, reads and faults, as tables.

`tables` is the record in memory, to which a run appends; `folder` writes it to disk and reads it.
"""

from .folder import VERSION, load, save
from .tables import Record, Shot, Table

__all__ = ["VERSION", "Record", "Shot", "Table", "load", "save"]
