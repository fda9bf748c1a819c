"""Which tests stay in one process when pytest-xdist runs several.

A Spark session is one a process, takes seconds to start, and is exchanged by some tests: all tests
that use one stay together. The others stay with those of their file, whose servers they
share. (The marks of ``--dist loadgroup`` would say the same; xdist 3.8 writes them into an
attribute that pytest 9.2 does not read.)
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).resolve().parents[1]
USES = re.compile(r": SparkSession\b")
"""A parameter of a test that is a session; what needs no session in its own process has none."""


@cache
def _uses_spark(path: str) -> bool:
    return USES.search((ROOT / path).read_text(encoding="utf-8")) is not None


class Together(LoadScopeScheduling):
    """See the module. What holds most tests is begun first, and that is Spark's."""

    def _split_scope(self, nodeid: str) -> str:
        path, _, name = nodeid.partition("::")
        return "spark" if "on Spark" in name or _uses_spark(path) else path


__all__ = ["Together"]
