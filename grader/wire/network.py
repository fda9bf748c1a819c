"""The network of the services, for processes that must reach it: its namespaces and its free ports. Without numpy."""

from __future__ import annotations

import ctypes
import os
import random
import socket
from collections.abc import Iterable
from pathlib import Path

LEAST_PORT = 10_240
"""Lower ports are not used, because they may belong to well-known services of the machine."""


def free_ports(count: int) -> list[int]:
    """Return ``count`` different free ports of the loopback interface.

    They are below the kernel's ephemeral ports. Otherwise, an outgoing connection could use the port of a service that
    is down, and a connection to that port could even connect to itself.
    """
    below = range(LEAST_PORT, int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0]))
    wanted = iter(random.SystemRandom().sample(below, len(below)))
    held: list[socket.socket] = []
    try:
        while len(held) < count:
            sock = socket.socket()
            try:
                sock.bind(("127.0.0.1", next(wanted, 0)))  # 0: any port, because no lower port is left
                held.append(sock)
            except OSError:
                sock.close()  # the port is in use
        return [int(sock.getsockname()[1]) for sock in held]
    finally:
        for sock in held:
            sock.close()


def enter(paths: Iterable[str]) -> None:
    """Enter the namespaces in the given order. Raises OSError if one cannot be entered."""
    libc = ctypes.CDLL(None, use_errno=True)
    for path in paths:
        namespace = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if libc.setns(namespace, 0):
            raise OSError(ctypes.get_errno(), f"setns {path}")
        os.close(namespace)
