"""Runs the checks, each by itself, and prints a line for each."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator

from sharedstate_lite.doctor import engine, machine, services
from sharedstate_lite.doctor.finding import Finding, Level, fail
from sharedstate_lite.errors import Error

Check = Callable[[], Finding]

CHECKS: list[tuple[str, Check]] = [
    ("Python", machine.python),
    ("packages", machine.packages),
    ("imports", machine.imports),
    ("Java", engine.java),
    ("classes", engine.classes),
    ("protobuf", engine.protobuf),
    ("RocksDB", engine.rocksdb),
    ("PostgreSQL", services.postgres),
    ("JDBC", services.driver),
    ("GraphFrames", services.graphframes),
    ("settings", machine.settings),
    ("ports", machine.ports),
    ("folders", machine.folders),
    ("memory", machine.memory),
    ("disk", machine.disk),
]
"""What is looked at, in this order."""

MARKS = {Level.OK: ("✓", "ok"), Level.NOTE: ("·", "note"), Level.WARN: ("!", "warn"), Level.FAIL: ("✗", "FAIL")}


def examine(checks: list[tuple[str, Check]] | None = None, *, spark: bool = False) -> Iterator[tuple[str, Finding]]:
    """Run the checks one after the other; a check that fails itself is one FAIL and hides no other.

    With ``spark``, a small query proves Java, RocksDB, protobuf and Python workers
    together, last; it takes up to two minutes on a slow machine.
    """
    for name, check in [*(CHECKS if checks is None else checks), *([("Spark", engine.spark)] if spark else [])]:
        try:
            finding = check()
        except Error as error:  # which says itself what mends it
            text, _, mend = str(error).rpartition("; ")
            finding = fail(text or mend, mend)
        except Exception as error:  # whatever it is, the other checks must still be heard
            text = " ".join(str(error).split()) or "no message"
            finding = fail(f"could not be checked: {type(error).__name__}: {text}", "make clean, then make lab")
        yield name, finding


def line(name: str, finding: Finding, encoding: str = "utf-8") -> str:
    """One line: mark, what, finding and, where not all is well, the mend. Plain words where the symbols cannot be."""
    symbol, word = MARKS[finding.level]
    mend = f"; mend: {finding.mend}" if finding.mend else ""
    text = " ".join(f"{symbol} {word:<4}  {name + ':':<13}{finding.text}{mend}".splitlines())
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.replace(symbol, "-*!x"[finding.level], 1).encode(encoding, "replace").decode(encoding)
    return text


def main(arguments: list[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, 1 or 2 (see the package's docstring)."""
    parser = argparse.ArgumentParser(
        prog="python -m sharedstate_lite.doctor",
        description="Is this machine ready? One line for each thing the kit needs, and what mends it.",
        epilog="exit status: 0 ready, 1 it works but something will be slow or unlike the lock, 2 something is broken",
    )
    parser.add_argument("--spark", action="store_true", help="also start Spark and run a small query on RocksDB")
    parser.add_argument("--short", action="store_true", help="say only what is not well, and a closing line")
    options = parser.parse_args(arguments)
    encoding = sys.stdout.encoding or "ascii"
    worst, well, count = Level.OK, 0, 0
    for name, finding in examine(spark=options.spark):
        worst, well, count = max(worst, finding.level), well + (finding.level is Level.OK), count + 1
        if not options.short or finding.level >= Level.WARN:
            print(line(name, finding, encoding), flush=True)
    verdict = {
        Level.OK: "this machine is ready",
        Level.NOTE: "this machine is ready; the notes are about optional things"
        + (" (python -m sharedstate_lite.doctor shows them)" if options.short else ""),
        Level.WARN: "this machine will do; see the lines marked warn",
        Level.FAIL: "something is broken; see the lines marked FAIL",
    }[worst]
    print(f"doctor: {well} of {count} ok, {verdict}", flush=True)
    return worst.status
