"""System V shared memory, message queues and semaphores, which outlive the processes that use them."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

_REMOVE, _LAST_USER = 0, 11
"""The commands IPC_RMID and GETPID of the kernel."""
_USERS = {"shm": ("cpid", "lpid"), "msg": ("lspid", "lrpid"), "sem": ()}
"""The kinds of objects, and the columns with the pids of those who used an object last."""


def remove_unused(uid: int, living: Iterable[int]) -> None:
    """Remove the objects of a user that none of the ``living`` processes has attached, created or used last."""
    libc = ctypes.CDLL(None)
    alive = {pid for pid in living if owner(pid) == uid}
    for kind, columns in _USERS.items():
        try:
            names, *lines = (line.split() for line in Path("/proc/sysvipc", kind).read_text().splitlines())
        except (OSError, ValueError):
            continue  # this kernel has none
        for line in lines:
            row = {name: int(value) for name, value in zip(names, line, strict=True) if name != "perms"}
            number = row[f"{kind}id"]
            users = {row[column] for column in columns}
            if kind == "sem":
                users = {libc.semctl(number, one, _LAST_USER) for one in range(row["nsems"])}
            if row["cuid"] == uid and not row.get("nattch") and not users & alive:
                # semctl takes the number of a semaphore before the command, and ignores it here.
                getattr(libc, f"{kind}ctl")(number, *([0] * (kind == "sem")), _REMOVE, None)


def owner(pid: int) -> int:
    """Return the user of a process; -1 if it has ended."""
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except FileNotFoundError:
        return -1
