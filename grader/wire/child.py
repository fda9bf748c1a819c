"""The generator's process: jobs come in over a pipe, results go back; it ends when the pipe does.

A process of its own because it lives in the services' network namespace, because its CPU time is a figure of
the report, and because the grader must be free to kill services while requests are under way. It runs no
code but this package's, and keeps the answers as bytes.

Run as ``python -m grader.wire.child FD [USER_NAMESPACE NETWORK_NAMESPACE]``, the namespaces as files to enter.
"""

from __future__ import annotations

import ctypes
import gc
import os
import random
import resource
import signal
import socket
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

from .jobs import Job, Target, Word
from .loop import Loop

_LEAST_PORT = 10_240
"""Below it live the services of a machine that people know by number."""


def knock(target: Target, seconds: float) -> bool:
    """Whether somebody accepts a connection within so many seconds."""
    try:
        with socket.create_connection((target.host, target.port), timeout=seconds):
            return True
    except OSError:
        return False


def free_ports(count: int) -> list[int]:
    """So many ports of the loopback interface that nobody listens on now, all different.

    Below those that the kernel gives to connections: while a service is down, one of these could take its port, and a
    connection to a port that nobody listens on could even be given that port, and meet itself.
    """
    below = range(_LEAST_PORT, int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0]))
    wanted = iter(random.SystemRandom().sample(below, len(below)))
    held: list[socket.socket] = []
    try:
        while len(held) < count:
            sock = socket.socket()
            try:
                sock.bind(("127.0.0.1", next(wanted, 0)))  # 0: whichever the kernel has, where none is left below
                held.append(sock)
            except OSError:
                sock.close()  # somebody has it
        return [int(sock.getsockname()[1]) for sock in held]
    finally:
        for sock in held:
            sock.close()


def enter(paths: list[str]) -> None:
    """Enter namespaces, in the order given. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    for path in paths:
        namespace = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if libc.setns(namespace, 0):
            raise OSError(ctypes.get_errno(), f"setns {path}")
        os.close(namespace)


def serve(pipe: Connection) -> None:
    """Do what the pipe asks until it closes."""
    loop = Loop()
    stop = False

    def stopped() -> bool:
        nonlocal stop
        if not stop and pipe.poll():
            if pipe.recv() != "stop":
                raise RuntimeError("only a stop may come while a job runs")
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
            continue  # the job that it meant has just ended
        elif asked == "hang up":
            loop.hang_up()
            pipe.send(True)
        elif asked[0] == "knock":
            pipe.send(knock(*asked[1:]))
        elif asked[0] == "ports":
            pipe.send(free_ports(asked[1]))
        else:
            raise RuntimeError(f"{asked!r} is nothing that the generator does")


def main() -> None:
    """The process, from start to end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the grader says when to end
    enter(sys.argv[2:])
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.disable()  # a collection would be late requests; a job makes no cycles
    pipe = Connection(int(sys.argv[1]))
    try:
        pipe.send(time.monotonic_ns())
        serve(pipe)
    except (BrokenPipeError, ConnectionResetError, EOFError):
        return  # the grader is gone, and so is the reason to send


if __name__ == "__main__":
    main()
