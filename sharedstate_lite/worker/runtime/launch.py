"""The first steps of a runtime: it takes its name, its lease, and leaves whoever started it.

    python -c PROGRAM sharedstate_lite.worker   < one line of JSON: paths, application, host

It says one line and is then nobody's child: ``ready``, ``taken`` where another process
has the name (then it ends), or why there is no runtime. The kit's package is there as
a name only, so that none of its engines is imported; who wants them in a coroutine
gets them.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from . import host
from .address import Application

PROGRAM = """\
import json, sys, types
from importlib.machinery import PathFinder
job = json.loads(sys.stdin.readline())
sys.path[:] = job["path"]
kit = types.ModuleType("sharedstate_lite")
kit.__path__ = job["package"]
def whole(name):
    del kit.__getattr__
    kit.__spec__ = PathFinder.find_spec("sharedstate_lite")
    kit.__spec__.loader.exec_module(kit)
    return getattr(kit, name)
kit.__getattr__ = lambda name: whole(name) if name[:2] != "__" else (_ for _ in ()).throw(AttributeError(name))
sys.modules["sharedstate_lite"] = kit
from sharedstate_lite.worker.runtime import launch
launch.main(job)
"""
MARK = "sharedstate_lite.worker"
"""By which a runtime is found in a list of processes."""
KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPALIVE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
"""A driver whose machine is gone without a word is missed after a minute; macOS has the second name for the first."""


def start(application: Application) -> str:
    """Start a runtime for this host; returns what it says: ready, taken, or why there is none."""
    job = {
        # An executor's are relative to its folder, and the runtime leaves that.
        "path": [os.path.abspath(path) for path in sys.path],
        "package": [str(Path(__file__).resolve().parents[2])],
        "application": [
            application.name,
            application.secret.hex(),
            list(application.driver),
            application.identity,
            application.override,
        ],
        "name": application.runtime_name(),
        "identity": host.identity(application.override),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, MARK],
        input=json.dumps(job).encode() + b"\n",
        capture_output=True,
        start_new_session=True,
    )
    said = done.stdout.decode().strip()
    return said or (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it ended at once"])[-1]


def lease(application: Application) -> socket.socket:
    """A connection to the driver that lasts as long as it does. Raises OSError."""
    from . import protocol

    out = socket.create_connection(application.driver, timeout=protocol.HANDSHAKE_SECONDS)
    out.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    out.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE:
        if hasattr(socket, name):
            out.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    protocol.authenticate(out, application.secret)
    return out


def main(job: dict[str, Any]) -> None:
    """Become the runtime of this host, unless there is one."""
    name, secret, driver, identity, override = job["application"]
    application = Application(name, bytes.fromhex(secret), (driver[0], driver[1]), identity, override)
    # Before the fork, so that what cannot be imported is told.
    from .runtime import run

    listener = host.listener(job["name"])
    if listener is None:
        _say("taken")
        return
    try:
        to_driver = lease(application)
    except OSError as error:
        _say(f"its driver at {driver[0]}:{driver[1]} does not answer ({error})")
        return
    if os.fork():
        _say("ready")
        os._exit(0)
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    run(application, job["name"], job["identity"], listener, to_driver)


def _say(what: str) -> None:
    os.write(1, what.encode() + b"\n")
