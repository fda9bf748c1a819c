"""The command ``python -m sharedstate_lite.spark.session.cluster``: a temporary cluster on this machine.

    ... try                    start it, run one job on it and in this process, compare, stop it
    ... run COMMAND ...        run a command with SHAREDSTATE_LITE_MASTER set to its address, then stop it
    ... start                  print its address, and keep it until Ctrl-C

It ends on Ctrl-C, on SIGTERM and with its terminal. All of its processes end with it, also if it is killed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

from ...errors import Error
from ...system.command import command
from ...system.example import SCHEMA, SQL
from .settings import VARIABLE
from .standalone import Cluster


def _arguments(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m sharedstate_lite.spark.session.cluster", description="A standalone cluster on this machine."
    )
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="how many (default 2)")
    parser.add_argument("--cores", type=int, default=1, metavar="N", help="of each worker (default 1)")
    parser.add_argument("--memory", default="1g", metavar="SIZE", help="of each worker (default 1g)")
    commands = parser.add_subparsers(dest="what", required=True)
    commands.add_parser("try", help="run one job on it and in this process, and compare")
    run = commands.add_parser("run", help=f"run a command with {VARIABLE} set to it")
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND ...", help="for example: python job.py")
    commands.add_parser("start", help="keep it until Ctrl-C")
    found = parser.parse_args(given)
    if found.what == "run" and not found.command:
        run.error("a command to run is missing, for example: run python job.py")
    return found


def main(given: list[str]) -> int:
    """The exit code: the command's, 0, or 1 if answers differ. Raises Error if the cluster does not start."""
    asked = _arguments(given)
    if asked.what == "run" and shutil.which(asked.command[0]) is None:
        raise Error(f"{asked.command[0]} cannot be run: no such program; write the command as in a shell")
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            # Raise an exception, so that the cluster ends.
            signal.signal(getattr(signal, name), lambda got, _: sys.exit(128 + got))
    with Cluster(asked.workers, asked.cores, asked.memory) as cluster:
        if asked.what == "run":
            return _run(asked.command, cluster.url)
        print(f"{cluster.url}  ({asked.workers} workers)", flush=True)
        if asked.what == "try":
            return _try(cluster.url)
        print(f"export {VARIABLE}={cluster.url}   # Ctrl-C here ends it", flush=True)
        while True:
            signal.pause()


def _run(words: list[str], url: str) -> int:
    with subprocess.Popen(words, env={**os.environ, VARIABLE: url}) as process:
        try:
            return process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise


def _try(url: str) -> int:
    """Step the shopping view in one process and on the cluster, and compare."""
    import sharedstate_lite as ss

    view = ss.Catalog(**SCHEMA).view(SQL)
    epochs: list[dict[str, Any]] = [
        {
            "info": [((f"product {n}", f"category {n % 5}"), 1) for n in range(50)],
            "visit": [((f"product {n % 50}", f"user {n % 7}", n), 1) for n in range(500)],
        },
        {"visit": [(("product 3", "user 1", 1_000), 1)]},
        {"visit": [(("product 3", "user 1", 1_000), -1)], "info": [(("product 4", "category 4"), -1)]},
    ]
    equal = True
    with ss.engine("shared", [view]) as here, ss.spark.session(url) as session:
        with ss.spark.engine("shared", [view], session) as there:
            for number, epoch in enumerate(epochs, 1):
                begun = time.perf_counter()
                same = there.step(epoch) == here.step(epoch)
                equal &= same
                verdict = "equal to" if same else "DIFFERENT from"
                print(f"epoch {number}: changes {verdict} those in one process, {time.perf_counter() - begun:.1f} s")
            same = there.read("result").equals(here.read("result"))
    print(f"the view: {'equal' if same else 'DIFFERENT'}")
    return 0 if equal and same else 1


if __name__ == "__main__":
    command("cluster", lambda: main(sys.argv[1:]))
