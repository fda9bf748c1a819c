"""Checks that this machine can run the kit, and the launcher of JupyterLab.

    python -m sharedstate_lite.doctor            run twelve checks, which take a few seconds
    python -m sharedstate_lite.doctor --spark    also run a small Spark query
    python -m sharedstate_lite.doctor.lab        run the doctor, then JupyterLab, as `make lab` does

Each check is a function that returns a `Finding`: a level, what was found, and how to fix it. The exit status is 0 if
everything required works, 1 if something works with limits (``warn``), and 2 if something is broken (``FAIL``). A
course can add its own checks:

>>> from sharedstate_lite import doctor
>>> def registry():
...     return doctor.warn("the course registry answers slowly", fix="use the campus network")
>>> for name, finding in doctor.examine([("registry", registry)]):
...     print(doctor.line(name, finding))
warn  registry:   the course registry answers slowly; fix: use the campus network

Modules, from the bottom: ``finding`` is the result of a check; ``machine`` checks Python, packages, the user id, ports,
folders and memory; ``services`` checks Java, RocksDB, PostgreSQL, loops and jars; ``smoke_test`` is the Spark query;
``loops`` compiles the loops; ``report`` runs the checks and prints their findings; ``copies`` copies the lessons for
the learner; ``lab`` starts and stops JupyterLab. Importing this package requires only the standard library, so it can
report missing packages.

Modelled on ``brew doctor`` and ``flutter doctor``.
"""

from sharedstate_lite.doctor.finding import Finding, Level, fail, note, ok, warn
from sharedstate_lite.doctor.report import CHECKS, examine, line, main

__all__ = ["CHECKS", "Finding", "Level", "examine", "fail", "line", "main", "note", "ok", "warn"]
