"""A folder whose power can be cut: what was written to it and never synced is then gone.

`undo` remembers what a file held at its last sync, `serve` is the file system, a process of its own, `disk` starts and
ends it and says what a machine lacks for it, `proof` tries all of it out behind the sandbox that services run in. The
idea is ALICE's and CrashMonkey's (what may a disk hold after a crash?), reduced to one answer: nothing but what was
synced.
"""

from .disk import Disk, Dropped
from .proof import prove

__all__ = ["Disk", "Dropped", "prove"]
