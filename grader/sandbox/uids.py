"""A uid for each running submission, if the grader runs as root: no other process has it.

So a submission can neither signal another one nor read its files, in tiers that have no namespaces. Afterwards,
`clear` removes what the uid has left on the machine.
"""

from __future__ import annotations

import os
import secrets
import socket
import stat
from pathlib import Path

from ..errors import VoidError
from ..folders import ignore, remove, walk
from .ipc import owner, remove_unused
from .tree import kill_all, processes

_FIRST, _MANY = (1_900_000_000, 20_000), 40_000
"""Where the range of uids begins, and how many there are. systemd documents the first range as unused. A container may
have only the first 65,536 uids."""
_OPEN = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock")
"""Folders in which every user can make files."""


class Uid:
    """The user of a submission: a uid that is reserved when it is first needed, and again after `close`."""

    def __init__(self) -> None:
        self._reserved: tuple[int, socket.socket] | None = None

    @property
    def number(self) -> int:
        """The uid. Raises as `reserve`."""
        self._reserved = self._reserved or reserve()
        return self._reserved[0]

    def release(self) -> None:
        """Give the uid back, whose processes have ended."""
        if self._reserved is not None:
            self._reserved[1].close()
            self._reserved = None

    def close(self) -> None:
        """End what the uid has left behind, and give it back. Raises as `kill_all`."""
        if self._reserved is not None:
            clear(self._reserved[0])
            self.release()


def own_uid() -> Uid | None:
    """Return a user for the code of a lab; None if the grader is not root, and so cannot start it as another user."""
    return Uid() if os.geteuid() == 0 else None


def reserve() -> tuple[int, socket.socket]:
    """Return a uid that no process on this machine uses, and a lock. Close the lock to give the uid back.

    The lock is the name of a socket, which the kernel gives to one process, and takes back when that process ends.
    Raises VoidError if there is no such uid.
    """
    first = next((first for first in _FIRST if _mapped(first + _MANY)), 0)
    for _ in range(100 if first else 0):
        uid = first + secrets.randbelow(_MANY)
        lock = socket.socket(socket.AF_UNIX)
        try:
            lock.bind(f"\0sharedstate-lite-grader-uid-{uid}")
        except OSError:
            lock.close()
            continue
        if not _known(uid) and uid not in map(owner, processes()):
            return uid, lock
        lock.close()
    raise VoidError("this machine has no unused uid; start the grader in a container with more than 65,536 uids")


def _mapped(uid: int) -> bool:
    """Return whether this user namespace has the uid."""
    lines = [list(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()]
    return any(first <= uid < first + many for first, _, many in lines)


def _known(uid: int) -> bool:
    import pwd

    try:
        return bool(pwd.getpwuid(uid))
    except KeyError:
        return False


def clear(uid: int) -> None:
    """Kill the processes of a uid, and remove its files in folders that are open to all, and its shared memory.

    Raises as `kill_all`.
    """
    kill_all(lambda everyone: {pid for pid in everyone if owner(pid) == uid})
    for place in _OPEN:
        _remove(place, uid)
    remove_unused(uid, ())


def _remove(place: str, uid: int) -> None:
    for level in walk(place, ignore):
        entries, level.folders = level.folders + level.others, []
        for entry in entries:
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # it has been removed
            if found.st_uid == uid:
                remove(entry.name, level.fd)
            elif stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_IWOTH:
                level.folders.append(entry)
