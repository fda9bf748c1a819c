"""What some notebooks need beside Spark: PostgreSQL's programs, its driver for Spark, the GraphFrames jar."""

from __future__ import annotations

import os

from sharedstate_lite.doctor.finding import Finding, note, ok
from sharedstate_lite.doctor.machine import REBUILD
from sharedstate_lite.errors import Error


def postgres() -> Finding:
    """PostgreSQL's programs, and where this is root, whom they may run as; looked at, not started."""
    from sharedstate_lite.postgres import programs

    if os.environ.get(programs.VARIABLE):
        return ok(f"the server that {programs.VARIABLE} names")
    try:
        found = programs.find()
        user = programs.user(found)
    except Error as error:
        return note(str(error), f"{REBUILD}, or what the message says; only the notebooks with PostgreSQL want it")
    return ok(f"{found.version} in {found.bin} (from {found.origin}{f', to run as {user.name}' if user else ''})")


def driver() -> Finding:
    """PostgreSQL's JDBC driver, with which Spark reads it."""
    return _jar("postgresql")


def graphframes() -> Finding:
    """The JVM half of GraphFrames: one rung of one notebook."""
    return _jar("graphframes")


def _jar(name: str) -> Finding:
    from sharedstate_lite.spark.session import jars

    found = jars.find(name)
    if found.absent is not None:
        return note(f"no jar: {found.absent}", found.mend)
    return ok(", ".join(str(path) for path in found.paths))
