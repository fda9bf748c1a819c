"""Starts a runtime, which binds its name, connects to its driver, and detaches from the process that started it.

    python -c PROGRAM sharedstate_lite.worker   < one line of JSON: paths, application, host

The process that starts the runtime reads one line from it: ``ready``, ``taken`` or the reason why it cannot run.
``taken`` means that another process has already bound the name, and the new process exits. A runtime does not import
the engines. It starts with a stub of the package ``sharedstate_lite``, which loads the real package when a user's
coroutine first accesses one of its attributes.
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
def load(name):
    del kit.__getattr__
    kit.__spec__ = PathFinder.find_spec("sharedstate_lite")
    kit.__spec__.loader.exec_module(kit)
    return getattr(kit, name)
kit.__getattr__ = lambda name: load(name) if name[:2] != "__" else (_ for _ in ()).throw(AttributeError(name))
sys.modules["sharedstate_lite"] = kit
from sharedstate_lite.worker.runtime import launch
launch.main(job)
"""
MARK = "sharedstate_lite.worker"
"""A command-line argument that identifies runtimes in a list of processes."""
KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPALIVE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
"""Socket options that detect within one minute that the driver's machine is no longer reachable.

On macOS, TCP_KEEPIDLE is called TCP_KEEPALIVE."""


def start(application: Application) -> str:
    """Start a runtime on this host. Return ``ready``, ``taken`` or the reason why it did not start."""
    job = {
        # In an executor, paths can be relative to its working directory, but the runtime changes to another one.
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
    return said or (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it exited immediately"])[-1]


def lease(application: Application) -> socket.socket:
    """Return an authenticated connection to the driver, which stays open until the driver closes it or exits.

    Raises OSError if the driver does not answer or does not know the secret.
    """
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
    """Turn this new process into the runtime of this host, unless the host already has one."""
    name, secret, driver, identity, override = job["application"]
    application = Application(name, bytes.fromhex(secret), (driver[0], driver[1]), identity, override)
    # Import this before the fork, so that the process that starts the runtime still receives an import error.
    from .runtime import run

    listener = host.listener(job["name"])
    if listener is None:
        _report("taken")
        return
    try:
        to_driver = lease(application)
    except OSError as error:
        _report(f"its driver at {driver[0]}:{driver[1]} does not answer ({error})")
        return
    if os.fork():
        _report("ready")
        os._exit(0)
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    run(application, job["name"], job["identity"], listener, to_driver)


def _report(outcome: str) -> None:
    os.write(1, outcome.encode() + b"\n")
