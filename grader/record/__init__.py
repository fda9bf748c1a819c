"""The record of one run: its orders, requests, answers, reads and faults, as tables.

`tables` defines the record in memory, to which a run appends, and `notes` what it has besides tables. `folder` saves it
to disk and loads it, and `version_1` reads what earlier graders have written.
"""

from .folder import VERSION, load, recorded, save
from .notes import Exchange, Notes, SentWave
from .tables import Record, Shot, Table

__all__ = ["VERSION", "Exchange", "Notes", "Record", "SentWave", "Shot", "Table", "load", "recorded", "save"]
