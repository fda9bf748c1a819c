"""The command ``python -m sharedstate_lite.spark.session.cluster``: a temporary cluster on this machine.

    ... try                    run the same job on a cluster and in this process, and compare the results
    ... run COMMAND ...        run a command with SHAREDSTATE_LITE_MASTER set to the address of a cluster
    ... start                  print the address of a cluster, and keep the cluster running until Ctrl-C

The cluster stops at the end of the command, on Ctrl-C, on SIGTERM, and when the terminal is closed. Its processes stop
even if the command is killed.
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
        prog="python -m sharedstate_lite.spark.session.cluster", description="Run a standalone cluster on this machine."
    )
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="the number of workers (default: 2)")
    parser.add_argument("--cores", type=int, default=1, metavar="N", help="cores per worker (default: 1)")
    parser.add_argument("--memory", default="1g", metavar="SIZE", help="memory per worker (default: 1g)")
    commands = parser.add_subparsers(dest="what", required=True)
    commands.add_parser("try", help="run one job on the cluster and in this process, and compare the results")
    run = commands.add_parser("run", help=f"run a command with {VARIABLE} set to the cluster's address")
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND ...", help="for example: python job.py")
    commands.add_parser("start", help="keep the cluster running until Ctrl-C")
    found = parser.parse_args(given)
    if found.what == "run" and not found.command:
        run.error("add the command to run, for example: run python job.py")
    return found


def main(given: list[str]) -> int:
    """Run the command line ``given``, and return its exit code.

    ``run`` returns the exit code of its command. ``try`` returns 0 if all results are equal, and 1 otherwise. Raises
    Error if the cluster does not start.
    """
    asked = _arguments(given)
    if asked.what == "run" and shutil.which(asked.command[0]) is None:
        raise Error(f"{asked.command[0]} cannot be run: no such program; write the command as you would in a shell")
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Exit with an exception, so that the cluster is stopped.
        signal.signal(number, lambda got, _: sys.exit(128 + got))
    with Cluster(asked.workers, asked.cores, asked.memory) as cluster:
        if asked.what == "run":
            return subprocess.call(asked.command, env={**os.environ, VARIABLE: cluster.url})
        print(f"{cluster.url}  ({asked.workers} workers)", flush=True)
        if asked.what == "try":
            return _try(cluster.url)
        print(f"export {VARIABLE}={cluster.url}   # press Ctrl-C here to stop the cluster", flush=True)
        while True:
            signal.pause()


def _try(url: str) -> int:
    """Step the shopping view in one process and on the cluster. Return 0 if the results are equal, and 1 otherwise."""
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
