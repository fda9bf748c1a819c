"""The process that Python workers are forked from, with everything imported that they need.

PySpark's own imports nothing beforehand, so each worker spends its first second on
numpy, pandas, pyarrow and the kit. Here they are imported once, before the first fork.
What keeps PySpark from it are threads that a fork would lose. There is one at most,
which gives memory back for the allocator of pyarrow: that allocator holds its own
locks while a process forks, and does without the thread in the child (jemalloc's
``pthread_atfork`` handlers). Any other thread, and each worker imports for itself.

Spark starts it: ``python -m sharedstate_lite.spark.workers pyspark.worker``.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

SPARED = "jemalloc_bg_thd"


def threads() -> list[str]:
    """The names of this process's threads beside the first; where the system does not tell, none is known."""
    folder, mine = Path("/proc/self/task"), str(os.getpid())
    if not folder.is_dir():
        return []
    return [(task / "comm").read_text().strip() for task in folder.iterdir() if task.name != mine]


def main() -> None:
    """Import, then fork workers until Spark ends it."""
    import numpy as np
    import pyspark.worker  # noqa: F401
    from pyspark.daemon import manager

    from .query import processor  # noqa: F401

    if any(name != SPARED for name in threads()):
        os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]])
    # Python's own generator is seeded anew in a child; numpy's would draw the same numbers in all of them.
    os.register_at_fork(after_in_child=np.random.seed)
    # What stays is not looked at again by each child's collector, which would have its pages copied.
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
