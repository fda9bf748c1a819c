"""A folder whose power can be cut, so that all unsynced writes to it are lost.

`undo` stores the content that a file had at its last sync, `serve` is the file system in its own process, `disk` starts
and stops that process and reports what a machine lacks for it, and `proof` tests a power cut from inside the sandbox.
ALICE and CrashMonkey explore the states that a disk may have after a crash. This file system produces only one of them,
in which only the synced data is left.

Source: Pillai et al., All File Systems Are Not Created Equal, OSDI 2014; Mohan et al., Finding
Crash-Consistency Bugs with Bounded Black-Box Crash Testing, OSDI 2018.
"""

from .disk import Disk, Dropped
from .proof import prove

__all__ = ["Disk", "Dropped", "prove"]
