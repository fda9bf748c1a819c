"""Runs the checks and prints a report with one line for each check."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator

from sharedstate_lite.doctor import machine, services
from sharedstate_lite.doctor.finding import Finding, Level, fail
from sharedstate_lite.errors import Error

Check = tuple[str, Callable[[], Finding]]

CHECKS: list[Check] = [
    ("Python", machine.python),
    ("packages", machine.packages),
    ("variables", machine.variables),
    ("user", machine.user),
    ("Java", services.java),
    ("RocksDB", services.rocksdb),
    ("PostgreSQL", services.postgres),
    ("jars", services.jars),
    ("loops", services.loops),
    ("ports", machine.ports),
    ("folders", machine.folders),
    ("memory", machine.memory),
]
"""The checks, in the order in which the report lists them."""

VERDICTS = {
    Level.OK: "this machine is ready",
    Level.NOTE: "this machine is ready (the notes are about optional parts)",
    Level.WARN: "this machine works with limits (see the lines marked warn)",
    Level.FAIL: "something is broken (see the lines marked FAIL)",
}


def examine(checks: Iterable[Check] | None = None, *, spark: bool = False) -> Iterator[tuple[str, Finding]]:
    """Run the checks, by default all of `CHECKS`, and yield the name of each check with its finding.

    If ``spark`` is True, a small Spark query runs last. If a check raises an exception, its finding is a FAIL, and the
    remaining checks still run.
    """
    for name, check in [*(CHECKS if checks is None else checks), *([("Spark", services.spark)] if spark else [])]:
        try:
            finding = check()
        except Error as error:  # its message ends with what to do
            text, _, fix = str(error).rpartition("; ")
            finding = fail(text or fix, fix)
        except Exception as error:
            text = " ".join(str(error).split()) or "no message"
            finding = fail(f"the check itself raised {type(error).__name__}: {text}", machine.REBUILD)
        yield name, finding


def line(name: str, finding: Finding) -> str:
    """Return a finding as one line of the report."""
    word = "FAIL" if finding.level is Level.FAIL else finding.level.name.lower()
    fix = f"; fix: {finding.fix}" if finding.fix else ""
    return " ".join(f"{word:<4}  {name + ':':<12}{finding.text}{fix}".splitlines())


def main(arguments: list[str] | None = None) -> int:
    """Run the command line: print the report and return the exit status (0, 1 or 2; see `Level.status`)."""
    parser = argparse.ArgumentParser(
        prog="python -m sharedstate_lite.doctor",
        description="Check that this machine is ready. Prints one line, and if needed a fix, for each requirement.",
        epilog="exit status: 0 if the machine is ready, 1 if it works with limits, 2 if something is broken",
    )
    parser.add_argument("--spark", action="store_true", help="also start Spark and run a small query on RocksDB")
    parser.add_argument("--short", action="store_true", help="print the verdict, then what is not ok")
    options = parser.parse_args(arguments)
    levels, after = [], []
    for name, finding in examine(spark=options.spark):
        levels.append(finding.level)
        if not options.short:
            print(line(name, finding), flush=True)
        elif finding.level is not Level.OK:
            after.append(line(name, finding))
    worst = max(levels)
    print(f"doctor: {levels.count(Level.OK)} of {len(levels)} ok; {VERDICTS[worst]}", *after, sep="\n", flush=True)
    return worst.status
