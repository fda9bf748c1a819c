"""What runs in the child: JupyterLab, ended when the launcher is gone.

Standard input is a pipe whose other end only the launcher holds, and which carries
nothing. It closes when the launcher ends, even by SIGKILL; a thread waits for that
and asks JupyterLab to end as SIGTERM does. If that takes too long, everything below
is killed. (A pipe works wherever processes do; a parent-death signal is Linux's alone.)
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from jupyterlab.labapp import main

from sharedstate_lite.doctor.lab import kin

PATIENCE = 15.0
"""Seconds that JupyterLab has to end its kernels."""


def watch(pipe: int) -> None:
    """Wait until the launcher is gone, then end this process and what it started."""
    while os.read(pipe, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    pause(PATIENCE)  # the process normally ends during this
    kin.end(os.environ.get(kin.VARIABLE, ""), pause, patience=0)
    os._exit(1)


def pause(seconds: float) -> None:
    """Let the others go on for a while."""
    threading.Event().wait(seconds)


def serve(arguments: list[str]) -> None:
    """Run JupyterLab with these arguments; returns when it has ended."""
    pipe = os.dup(0)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    threading.Thread(target=watch, args=[pipe], daemon=True).start()
    try:
        main(argv=arguments)
    finally:  # kernels have been asked by now; this is for what they started
        kin.end(os.environ.get(kin.VARIABLE, ""), pause)


if __name__ == "__main__":
    serve(sys.argv[1:])
