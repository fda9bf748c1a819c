"""A folder whose power can be cut: unsynced writes are then lost.

`undo` stores what a file held at its last sync, `serve` is the file system in its own process, `disk` starts and ends
it and reports what a machine lacks for it, `proof` tries it from the sandbox. ALICE and CrashMonkey explore the states
that a disk may have after a crash; this file system produces one of them, in which only synced data is left.

Source: Pillai et al., All File Systems Are Not Created Equal, OSDI 2014; Mohan et al., Finding
Crash-Consistency Bugs with Bounded Black-Box Crash Testing, OSDI 2018.
"""

from .disk import Disk, Dropped
from .proof import prove

__all__ = ["Disk", "Dropped", "prove"]
