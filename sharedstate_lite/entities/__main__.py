"""Serve or export an entity program.

python -m sharedstate_lite.entities serve shop.py --port 8000 --data data     # on 127.0.0.1; port 0: a free one
python -m sharedstate_lite.entities serve shop.py --port 8000 --data data --spark [--bins 8]      # in a Spark query
python -m sharedstate_lite.entities snapshot shop.py --data data              # before you change the program
python -m sharedstate_lite.entities export shop.py FOLDER                     # a folder that needs only Python
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

from .errors import EntityError
from .export import export
from .log import ServeError
from .serve import EntityService, load, serve


def fixed_hashes() -> None:
    """Restart Python with PYTHONHASHSEED=0, because the order of a set must be the same in a replay."""
    if sys.flags.hash_randomization:
        words = [word for word in sys.orig_argv[1:] if word not in ("-I", "-E")]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        if sys.flags.ignore_environment and len(words) == len(sys.orig_argv) - 1:
            sys.exit("write -I and -E as separate options, as in python -I -s . serve")
        if sys.flags.isolated:  # -I ignores the variable
            words = ["-s", "-P", *words]
        elif not sys.flags.ignore_environment:
            kept = dict(os.environ)
        os.execve(sys.executable, [sys.executable, *words], {**kept, "PYTHONHASHSEED": "0"})


def main(words: list[str] | None = None) -> None:
    """Run one command. Exits with status 1 and a message if the program or the folder cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m sharedstate_lite.entities", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("serve", "snapshot", "export"):
        command = commands.add_parser(name)
        command.add_argument("program", type=Path, help="the file that defines the Program")
        if name == "export":
            command.add_argument("folder", type=Path, help="a new or empty folder, or one that export wrote")
        else:
            command.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="the folder of the log")
        if name == "serve":
            command.add_argument("--port", type=int, required=True)
            command.add_argument("--migrate", action="store_true", help="replay requests that another program logged")
            command.add_argument("--spark", action="store_true", help="keep the entities in Spark's state store")
            command.add_argument("--bins", type=int, help="with --spark: the number of bins (default: 1)")
        if name == "snapshot":
            command.add_argument("--until", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    if given.command == "serve" and (given.bins is not None and not given.spark or given.migrate and given.spark):
        parser.error("--bins is an option of --spark; --migrate is not")
    try:
        if given.command == "export":
            return export(given.program, given.folder)
        fixed_hashes()
        sys.set_int_max_str_digits(0)  # the state may contain larger numbers
        if given.command == "serve" and given.spark:
            try:
                from .serve_on_spark import serve_on_spark
            except ImportError as error:
                raise ServeError(
                    f"--spark needs the library and PySpark, not only an exported folder ({error})"
                ) from error
            return serve_on_spark(given.program, given.data, given.port, 1 if given.bins is None else given.bins)
        program = load(given.program)
        if given.command == "snapshot":
            os.nice(10)  # the server that started this process has priority
            service = EntityService(program, given.data, until=given.until)
            service.log.save(given.until or service.log.rotate(), list(service.rows()))
        else:
            service = EntityService(program, given.data, given.program, migrate=given.migrate)
            asyncio.run(serve(service.request, given.port))
    except (EntityError, ServeError, OSError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
