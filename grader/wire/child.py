"""The generator's process. It receives jobs over a pipe, returns results, and exits when the pipe is closed.

It is a separate process because it enters the network namespace of the services, because the report shows its CPU time,
and because the grader must kill services while requests are in flight.

It is started with ``python -m grader.wire.child FD [USER_NAMESPACE NETWORK_NAMESPACE]``. The namespaces are paths of
files in /proc.
"""

from __future__ import annotations

import gc
import resource
import signal
import socket
import sys
import time
from multiprocessing.connection import Connection

from .jobs import Job, Target, Word
from .loop import Loop
from .network import enter, free_ports


def knock(target: Target, seconds: float) -> bool:
    """Return whether a target accepts a connection within ``seconds``."""
    try:
        with socket.create_connection((target.host, target.port), timeout=seconds):
            return True
    except OSError:
        return False


def serve(pipe: Connection) -> None:
    """Serve the requests from the pipe until it is closed."""
    loop = Loop()
    stop = False

    def stopped() -> bool:
        nonlocal stop
        if not stop and pipe.poll():
            if pipe.recv() != "stop":
                raise RuntimeError("a job is running; only 'stop' can be sent")
            stop = True
        return stop

    def word(said: Word) -> None:
        pipe.send(said)

    while True:
        try:
            asked = pipe.recv()
        except EOFError:
            return
        if isinstance(asked, Job):
            stop = False
            pipe.send(loop.run(asked, word, stopped))
        elif asked == "stop":
            continue  # the job has just ended
        elif asked == "hang up":
            loop.hang_up()
            pipe.send(True)
        elif asked[0] == "knock":
            pipe.send(knock(*asked[1:]))
        elif asked[0] == "ports":
            pipe.send(free_ports(asked[1]))
        else:
            raise RuntimeError(f"unknown request {asked!r}")


def main() -> None:
    """Run the generator's process until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the grader stops this process
    enter(sys.argv[2:])
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.disable()  # a collection would delay requests, and a job does not create reference cycles
    pipe = Connection(int(sys.argv[1]))
    try:
        pipe.send(time.monotonic_ns())
        serve(pipe)
    except (BrokenPipeError, ConnectionResetError, EOFError):
        return  # the grader has ended


if __name__ == "__main__":
    main()
