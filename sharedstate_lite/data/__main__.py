"""The commands ``sharedstate data make`` and ``sharedstate data check``. ``--help`` shows their options."""

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

from ..errors import Error
from . import folder, interrupts
from .files import checked_path
from .progress import Progress
from .spec import Spec

_HELP = {
    "visits": "number of visits, the rows inserted into visit(product, user, length)",
    "products": "number of products; each has one row in info(product, category) at a time",
    "users": "number of users",
    "categories": "number of categories",
    "skew": "exponent of the Zipf distribution of visits over products; 0 means uniform",
    "deletes": "fraction of the visits that are deleted; visits of the last epoch are not deleted",
    "updates": "fraction of the visits whose length changes; visits of the last epoch do not change",
    "moves": "fraction of the products whose category changes",
    "epochs": "number of epochs",
    "seed": "random seed; the same seed always gives the same rows",
}


class _OneLineParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Print the message as a single line, without the usage text, and exit with code 2."""
        self.exit(2, f"{self.prog}: error: {message}\n")


def _arguments(given: list[str]) -> argparse.Namespace:
    parser = _OneLineParser(
        prog="sharedstate data", description="Generate the example's shop at any size, as Parquet files."
    )
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_OneLineParser)
    make = commands.add_parser(
        "make",
        help="generate a shop with Spark: one file per relation and epoch, and a manifest",
        description="Generate a shop with Spark. The same options give the same rows on any number of cores.",
        epilog="example: sharedstate data make --visits 10_000_000 --products 100_000 --epochs 100 --out shop",
    )
    make.add_argument("--out", required=True, metavar="FOLDER", help="the folder to write to; it must be new or empty")
    make.add_argument("--overwrite", action="store_true", help="replace a folder that this command made before")
    make.add_argument("--master", help="Spark master (default: SHAREDSTATE_LITE_MASTER, or local[2] if it is not set)")
    for field in fields(Spec):
        kind = int if isinstance(field.default, int) else float
        text = f"{_HELP[field.name]} (default {field.default:,})"
        make.add_argument(f"--{field.name}", type=kind, metavar="N" if kind is int else "X", help=text)
    check = commands.add_parser(
        "check",
        help="compare the files in a generated folder with its manifest",
        description="Compare the files in a generated folder with its manifest.",
    )
    check.add_argument("folder", metavar="FOLDER")
    check.add_argument("--stamp", action="store_true", help="first set the files' modification times in epoch order")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    """Run the command with the arguments ``given`` (default: ``sys.argv``) and return its exit code.

    The exit codes are 0 for success, 1 for a failure, and 2 for an invalid option. If a signal interrupts the command,
    the exit code is 128 plus the number of the signal: 129, 130 or 143.
    """
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
    """The final message of an interrupted command, which says what the command has written.

    An interrupt can arrive at any moment, so the message is derived from the file system.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._before: tuple[int, int] | None = None
        self._target: Path | None = None

    def watch(self, target: Path) -> None:
        """Store the identity of the folder that is at ``target`` before the command writes to it."""
        self._before = _identity(target)
        self._target = target

    def __str__(self) -> str:
        if self._options.command == "check" and self._options.stamp:
            return "the modification times of some files may not be set; run the command again"
        if self._target is None:
            return "nothing was written"
        now = _identity(self._target)
        if now not in (None, self._before):
            return f"{self._options.out} was written completely"
        return f"{self._options.out} was not written" + ("; the old folder is unchanged" if now else "")


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
        print(f"sharedstate data check: error: {error}", file=sys.stderr)
        return 1
    print(f"{options.folder}: matches its manifest; {_totals(manifest)}; checksum {manifest['checksum']}")
    return 0


def _make(options: argparse.Namespace, outcome: _Outcome) -> int:
    from ..spark import session, stop
    from ..spark.session import settings
    from .pipeline import begin, make

    given = {field.name: getattr(options, field.name) for field in fields(Spec)}
    parameters = {name: value for name, value in given.items() if value is not None}
    began = time.monotonic()
    try:
        # Check all options before Spark starts.
        Spec.make(**parameters)
        named = os.environ.get(settings.VARIABLE) or settings.MASTER
        settings.kind(named if options.master is None else options.master)
        target = checked_path(options.out).resolve()
        with interrupts.late():
            begin(target, options.overwrite).close()
    except Error as error:
        print(f"sharedstate data make: error: {error}", file=sys.stderr)
        return 2
    outcome.watch(target)
    bar: list[Progress] = []

    def progress(done: int, total: int) -> None:
        if not bar:
            bar.append(Progress("writing epochs", total, sys.stderr))
        bar[0].show(done)

    try:
        print("starting Spark", file=sys.stderr)
        spark = session(options.master)
        manifest = make(options.out, session=spark, overwrite=options.overwrite, progress=progress, **parameters)
    except Error as error:
        print(f"sharedstate data make: error: {error}", file=sys.stderr)
        return 1
    finally:
        # Stopping takes a second. Interrupting it would leave Spark's files behind.
        with interrupts.late():
            with contextlib.suppress(OSError):
                for shown in bar:
                    shown.close()
            stop()
    print(f"{options.out}: {_totals(manifest)}; {time.monotonic() - began:.0f} s")
    return 0


def _totals(manifest: dict[str, dict[str, dict[str, int]]]) -> str:
    counts = ", ".join(
        f"{relation}: {total['rows']:,} rows ({total['retractions']:,} retractions)"
        for relation, total in manifest["totals"].items()
    )
    return f"{len(manifest['epochs']):,} epochs, {counts}"


if __name__ == "__main__":
    sys.exit(main())
