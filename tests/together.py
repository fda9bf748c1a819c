"""Which tests stay in one process when pytest-xdist runs several.

A Spark session is one a process, and costs a JVM: the tests that use one stay together, in two heaps with a session
each: tests/spark, in which a task that fails is not run again, and the rest (see :mod:`sparks`). The others stay with
those of their file, whose servers they share. (The marks of ``--dist loadgroup`` would say the same; xdist 3.8 writes
them into an attribute that pytest 9.2 does not read.)
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).resolve().parents[1]
USES = re.compile(r": SparkSession\b")
"""A parameter of a test that is a session; what needs no session in its own process has none."""

SPARK, MORE_SPARK = "spark", "more spark"
LONG = (SPARK, "tests/notebooks/test_notebooks.py", MORE_SPARK)
"""What takes minutes is begun first, in this order; the rest in the order of how many tests there are."""


@cache
def _uses_spark(path: str) -> bool:
    return USES.search((ROOT / path).read_text(encoding="utf-8")) is not None


class Together(LoadScopeScheduling):
    """See the module."""

    def _split_scope(self, nodeid: str) -> str:
        path, _, name = nodeid.partition("::")
        if "on Spark" not in name and not _uses_spark(path):
            return path
        return SPARK if path.startswith("tests/spark/") else MORE_SPARK

    def _assign_work_unit(self, node: Any) -> None:
        for scope in reversed(LONG):
            if scope in self.workqueue:
                self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)


__all__ = ["Together"]
