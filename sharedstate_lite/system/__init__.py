"""What the kit needs of the operating system, and the example of the assignment.

>>> from sharedstate_lite.system import Scratch, cache_dir
>>> with Scratch(cache_dir("examples"), "run-") as scratch:
...     written = (scratch.path / "rows.csv").write_text("Potato,60")
...     print(scratch.path.is_dir())
True
>>> scratch.path.exists()
False

Modules, from the bottom:

    cache      the folder for files that can be made again: logs, jars, temporary files
    command    how a command exits: an Error is one line on standard error
    lazy       names that a package imports on first use
    folders    writing a folder completely or not at all
    scratch    temporary folders that are deleted even after a kill
    example    the schema, the view and the messages of the assignment
"""

from .cache import cache_dir, new_log
from .folders import atomic_folder
from .scratch import Scratch, lock_folder

__all__ = ["Scratch", "atomic_folder", "cache_dir", "lock_folder", "new_log"]
