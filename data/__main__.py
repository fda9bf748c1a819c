"""The command line: ``python -m data make`` and ``python -m data check``; see ``--help``."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import NoReturn

from sharedstate_lite.errors import Error

from . import folder, interrupts
from .files import checked_path
from .progress import Progress
from .spec import Spec

_HELP = {
    "visits": "visits inserted into visit(product, user, length)",
    "products": "products, each with a row in info(product, category)",
    "users": "users",
    "categories": "categories",
    "skew": "exponent of the Zipf distribution of visits over products, 0 is uniform",
    "deletes": "share of the visits that are deleted, except those of the last epoch",
    "updates": "share of the visits whose length changes, except those of the last epoch",
    "moves": "share of the products whose category changes",
    "epochs": "number of epochs",
    "seed": "another seed gives other rows, the same seed the same rows",
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, and 2 as the exit code."""
        self.exit(2, f"{self.prog}: error: {message}\n")


def _arguments(given: list[str]) -> argparse.Namespace:
    parser = _Parser(prog="python -m data", description="The shop of the example at any size, as Parquet.")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Parser)
    make = commands.add_parser(
        "make",
        help="make the shop with Spark: a file for each relation and epoch, and a manifest",
        description="Make the shop with Spark. The same options give the same rows, on any number of cores.",
        epilog="example: python -m data make --visits 10_000_000 --products 100_000 --epochs 100 --out shop",
    )
    make.add_argument("--out", required=True, metavar="FOLDER", help="the folder to make; it must be new or empty")
    make.add_argument("--overwrite", action="store_true", help="replace a folder that this command made before")
    make.add_argument("--master", help="where Spark runs (default: SHAREDSTATE_LITE_MASTER, else local[2])")
    for field in fields(Spec):
        kind = int if isinstance(field.default, int) else float
        text = f"{_HELP[field.name]} (default {field.default:,})"
        make.add_argument(f"--{field.name}", type=kind, metavar="N" if kind is int else "X", help=text)
    check = commands.add_parser(
        "check",
        help="compare a made folder with its manifest",
        description="Compare a made folder with its manifest.",
    )
    check.add_argument("folder", metavar="FOLDER")
    check.add_argument("--stamp", action="store_true", help="first set the files' times to the order of epochs")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    """Run the command. Returns the exit code: 0 done, 1 failed, 2 wrong option, 129, 130 or 143 interrupted."""
    options = _arguments(sys.argv[1:] if given is None else given)
    outcome = _Outcome(options)
    with interrupts.raised():
        try:
            return _check(options) if options.command == "check" else _make(options, outcome)
        except KeyboardInterrupt as interrupt:
            interrupts.ignore()
            with contextlib.suppress(OSError):  # the terminal may be closed
                print(f"interrupted; {outcome}", file=sys.stderr)
            return 128 + (interrupt.number if isinstance(interrupt, interrupts.Interrupted) else signal.SIGINT)


class _Outcome:
    """What an interrupted command has done, as text. Reads the file system, as an interrupt can come at any moment."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._before: tuple[int, int] | None = None
        self._target: Path | None = None

    def watch(self, target: Path) -> None:
        """Remember what is at the target before the command."""
        self._before = _identity(target)
        self._target = target

    def __str__(self) -> str:
        if self._options.command == "check" and self._options.stamp:
            return "some of the files' times may be set and others not; run it again"
        if self._target is None:
            return "nothing was written"
        now = _identity(self._target)
        if now not in (None, self._before):
            return f"{self._options.out} is made"
        return f"{self._options.out} is not made" + (", and the old folder is unchanged" if now else "")


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _check(options: argparse.Namespace) -> int:
    try:
        root = checked_path(options.folder)
        if options.stamp:
            folder.stamp_all(root)
        manifest = folder.check(root)
    except Error as error:
        print(f"python -m data check: error: {error}", file=sys.stderr)
        return 1
    print(f"{options.folder}: unchanged; {_totals(manifest)}; checksum {manifest['checksum']}")
    return 0


def _make(options: argparse.Namespace, outcome: _Outcome) -> int:
    from sharedstate_lite.spark import session, stop
    from sharedstate_lite.spark.session import settings

    from .pipeline import begin, make

    given = {field.name: getattr(options, field.name) for field in fields(Spec)}
    parameters = {name: value for name, value in given.items() if value is not None}
    began = time.monotonic()
    try:
        # All options are checked before Spark starts.
        Spec.make(**parameters)
        named = os.environ.get(settings.VARIABLE) or settings.MASTER
        settings.kind(named if options.master is None else options.master)
        target = checked_path(options.out).resolve()
        with interrupts.late():
            begin(target, options.overwrite).close()
    except Error as error:
        print(f"python -m data make: error: {error}", file=sys.stderr)
        return 2
    outcome.watch(target)
    bar: list[Progress] = []

    def progress(done: int, total: int) -> None:
        if not bar:
            bar.append(Progress("making epochs", total, sys.stderr))
        bar[0].show(done)

    try:
        print("starting Spark", file=sys.stderr)
        spark = session(options.master)
        manifest = make(options.out, session=spark, overwrite=options.overwrite, progress=progress, **parameters)
    except Error as error:
        print(f"python -m data make: error: {error}", file=sys.stderr)
        return 1
    finally:
        # An interrupted stop would leave Spark's files; it takes a second.
        with interrupts.late():
            with contextlib.suppress(OSError):
                for shown in bar:
                    shown.close()
            stop()
    print(f"{options.out}: {_totals(manifest)}; {time.monotonic() - began:.0f} s")
    return 0


def _totals(manifest: dict[str, dict[str, dict[str, int]]]) -> str:
    counts = ", ".join(
        f"{relation} {total['rows']:,} rows ({total['retractions']:,} of them retractions)"
        for relation, total in manifest["totals"].items()
    )
    return f"{len(manifest['epochs']):,} epochs, {counts}"


if __name__ == "__main__":
    sys.exit(main())
