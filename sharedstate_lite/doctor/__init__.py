"""Checks whether this machine can run the kit, and starts JupyterLab.

    python -m sharedstate_lite.doctor            ten checks in a few seconds; starts nothing
    python -m sharedstate_lite.doctor --spark    also runs a small Spark query
    python -m sharedstate_lite.doctor.lab        what `make lab` runs: the doctor, the example, JupyterLab

Each check is a function that returns a `Finding`: a level, what was found, and how to fix it. The exit status is 0 if
everything required works, 1 if something works with limits (``warn``), and 2 if something is broken (``FAIL``). A
course can add checks of its own:

>>> from sharedstate_lite import doctor
>>> def registry():
...     return doctor.warn("the course registry answers slowly", fix="use the campus network")
>>> for name, finding in doctor.examine([("registry", registry)]):
...     print(doctor.line(name, finding))
warn  registry:   the course registry answers slowly; fix: use the campus network

Modules, from the bottom: ``finding`` is the result of a check; ``machine`` checks Python, packages, ports, folders and
memory; ``services`` checks Java, RocksDB, PostgreSQL and jars; ``smoke_test`` is the Spark query; ``report`` runs and
prints the checks; ``lab`` starts and stops JupyterLab. Importing this package needs the standard library alone, so that
it can report missing packages.

Modelled on ``brew doctor`` and ``flutter doctor``.
"""

from sharedstate_lite.doctor.finding import Finding, Level, fail, note, ok, warn
from sharedstate_lite.doctor.report import CHECKS, examine, line, main

__all__ = ["CHECKS", "Finding", "Level", "examine", "fail", "line", "main", "note", "ok", "warn"]
