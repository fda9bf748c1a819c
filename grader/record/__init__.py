"""The record of one run: its orders, requests, answers, reads and faults, as tables.

`tables` defines the record in memory, to which a run appends. `folder` saves it to disk and loads it.
"""

from .folder import VERSION, load, recorded, save
from .tables import Record, Shot, Table

__all__ = ["VERSION", "Record", "Shot", "Table", "load", "recorded", "save"]
