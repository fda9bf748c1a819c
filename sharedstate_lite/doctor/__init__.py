"""Is this machine ready? One line for each thing the kit needs, and what mends it.

    python -m sharedstate_lite.doctor            a few seconds, starts nothing
    python -m sharedstate_lite.doctor --spark    also runs a small Spark query on RocksDB

    finding.py    what a check says: a level, a finding, a mend
    machine.py    Python, packages, ports, folders, memory, disk
    engine.py     what Spark needs: Java, protobuf, RocksDB
    services.py   PostgreSQL, and the jars that PySpark does not bring
    proof.py      the query of --spark, in a process of its own
    report.py     runs the checks, each by itself, and prints them

Exit status: 0 everything needed is there (notes tell of optional things), 1 all of
it works, but something will be slow, cramped or unlike the lock (``warn``), 2
something is broken (``FAIL``). The rooms of this folder use the standard library alone
and import neither PySpark nor the engines, so that they can speak where those are
what is missing.
"""

from sharedstate_lite.doctor.finding import Finding, Level
from sharedstate_lite.doctor.report import examine, main

__all__ = ["Finding", "Level", "examine", "main"]
