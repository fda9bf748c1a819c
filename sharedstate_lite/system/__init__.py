"""Helpers for folders, locks, commands and imports, and the data of the assignment's example.

>>> from sharedstate_lite.system import Scratch, cache_dir
>>> with Scratch(cache_dir("examples"), "run-") as scratch:
...     written = (scratch.path / "rows.csv").write_text("Potato,60")
...     print(scratch.path.is_dir())
True
>>> scratch.path.exists()
False

Modules, from the bottom up:

    cache      the folder for files that can be recreated: logs, jars and temporary files
    command    runs a command, and prints an Error as one line on standard error
    notes      lines that engines log, and that notebooks and commands show
    lazy       imports a package's names on first use
    folders    writes a folder completely or not at all
    work       the learner's folder, and the exercises as they were delivered
    answers    the answers to predictions, kept in the learner's folder
    scratch    temporary folders that are deleted even if their process is killed
    example    the schema, view and messages of the assignment's example
"""

from .cache import cache_dir, new_log
from .folders import atomic_folder
from .scratch import Scratch, lock_folder

__all__ = ["Scratch", "atomic_folder", "cache_dir", "lock_folder", "new_log"]
