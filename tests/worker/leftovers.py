"""What an application has left on this host, as seen from outside; its counters; and waiting for a condition."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import psutil

from sharedstate_lite.worker import metrics
from sharedstate_lite.worker.handles.driver import DriverServer
from sharedstate_lite.worker.runtime import host
from sharedstate_lite.worker.runtime.launch import MARK

SECONDS = 120


def until(happened: Callable[[], bool], seconds: float = SECONDS) -> None:
    """Wait until a condition holds; fail after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"it did not happen within {seconds} s"
        time.sleep(0.05)


def counters(handle: Any) -> pd.Series[Any]:
    """The row of a handle in `metrics`, on a single host."""
    rows = metrics().set_index(["application", "handle"])
    row: pd.Series[Any] = rows.loc[(handle._application.name, handle.name)]
    return row


def runtimes(driver: DriverServer) -> list[int]:
    """The pids of an application's runtimes, found by their argument and their connection."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if (process.info["cmdline"] or [])[-1:] == [MARK]:
            with contextlib.suppress(psutil.Error):
                ports = {c.raddr.port for c in process.net_connections("tcp") if c.raddr}
                if driver.application.driver[1] in ports:
                    found.append(process.pid)
    return found


def left(driver: DriverServer) -> list[str]:
    """Sockets, and files in memory with the processes that hold them."""
    names = [driver.application.runtime_name(), driver.application.driver_name()]
    sockets = Path("/proc/net/unix").read_text()
    out = [name for name in names if host.address(name)[1:] in sockets]
    return out + [f"{pid}: {target}" for pid, target in held(driver.application.name)]


def held(application: str) -> list[tuple[int, str]]:
    """Pid and target of each open file in memory of an application."""
    out = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            for file in Path(f"/proc/{process.pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    target = os.readlink(file)
                    if f"memfd:sharedstate-lite-{application}" in target:
                        out.append((process.pid, target))
    return out
