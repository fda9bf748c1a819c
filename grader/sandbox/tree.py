"""Every process of a service, found and ended, also those that forked twice or took a session of their own.

Linux only: read from /proc. A process belongs to a service if it descends from its first process, shares its
session, or carries its mark in the environment that it was started with. The grader adopts orphans, so that none
leaves the tree for good; a process that wiped its environment, left the session and lost its parents belongs
to the run, and ends with it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from pathlib import Path

from ..errors import VoidError

_SET_CHILD_SUBREAPER = 36
MARK = "GRADER_SERVICE"
_PATIENCE = 30.0
"""Seconds that the kernel may take to end what was sent SIGKILL, with other work on the machine."""
_RECENT = 0.5
"""Seconds: recent enough for measuring."""


def adopt_orphans() -> None:
    """Make this process the parent of its descendants' orphans. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


_Everyone = dict[int, tuple[int, int, str, int]]
_last: tuple[float, _Everyone] = (-1e9, {})


def processes(age: float = 0.0) -> _Everyone:
    """Every process: its parent, its session, its state, when it began (ticks); as of at most ``age`` seconds ago.

    A look takes milliseconds, so what is asked every second for each service shares one.
    """
    global _last
    if time.monotonic() - _last[0] < age:
        return _last[1]
    found: _Everyone = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = _fields(Path("/proc", name))
            except OSError:
                continue  # it ended meanwhile
            state, parent, session, threads = fields[0], int(fields[1]), int(fields[3]), int(fields[17])
            if state in "ZX" and threads > 1:
                state = _state_of_threads(int(name))
            found[int(name)] = parent, session, state, int(fields[19])
    _last = time.monotonic(), found
    return found


def _fields(place: Path) -> list[str]:
    """Of a process, or of a thread, from its state on. Raises OSError once it has ended."""
    return (place / "stat").read_text(errors="replace").rpartition(") ")[2].split()


def _threads(pid: int) -> list[Path]:
    """Where /proc tells of each thread of a process; nowhere once it has ended."""
    place = Path("/proc", str(pid), "task")
    try:
        return [place / name for name in os.listdir(place)]
    except OSError:
        return []


def _state_of_threads(pid: int) -> str:
    """The state of a process whose first thread has ended: that of one that runs, else of one that is left.

    It looks ended, and is not: by its own doing, or for the moment that it takes the others to follow it.
    """
    states = "Z"
    for place in _threads(pid):
        try:
            states += _fields(place)[0]
        except OSError:
            continue  # it ended meanwhile
    return min(states, key=lambda state: "TtZX".find(state))


def told(pid: int, name: str) -> bytes:
    """A file of /proc about a process, from any of its threads where the first has ended. Raises OSError."""
    try:
        return Path("/proc", str(pid), name).read_bytes()
    except ProcessLookupError:
        for place in _threads(pid):
            try:
                return (place / name).read_bytes()
            except ProcessLookupError:
                continue
        raise


def _marked(pid: int, mark: bytes) -> bool:
    try:
        return mark in told(pid, "environ").split(b"\0")
    except OSError:
        return False


def descendants(first: int, everyone: _Everyone) -> set[int]:
    """Below a process, without it."""
    children: dict[int, list[int]] = {}
    for pid, (parent, *_) in everyone.items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    left = [first]
    while left:
        for child in children.get(left.pop(), []):
            if child not in found:
                found.add(child)
                left.append(child)
    return found


class Tree:
    """The processes of one start of a service."""

    def __init__(self, first: int, mark: str) -> None:
        self.first, self._mark = first, f"{MARK}={mark}".encode()
        self._aimed: set[int] = {first}

    def pids(self, age: float = 0.0) -> set[int]:
        """Those that live now, or did ``age`` seconds ago; zombies have ended."""
        everyone = processes(age)
        return {pid for pid in self._mine(everyone) if everyone[pid][2] not in "ZX"}

    def _mine(self, everyone: _Everyone) -> set[int]:
        below = descendants(self.first, everyone) | {self.first}
        ours = descendants(os.getpid(), everyone)
        mine = {pid for pid in ours if everyone[pid][1] == self.first or pid in below or _marked(pid, self._mark)}
        for pid in list(mine):
            mine |= descendants(pid, everyone)
        return mine

    def signal(self, number: int) -> None:
        """Send a signal to all of them, until no new one appears: a fork under way is not missed."""
        seen: set[int] = set()
        while new := self.pids() - seen:
            for pid in new:
                _send(pid, number)
            seen |= new

    def aim(self) -> None:
        """Look for them now, so that the next kill or pause begins at once: looking takes milliseconds."""
        self._aimed = self.pids() | {self.first}

    def strike(self, number: int) -> None:
        """A signal to those that the last aim found, at once."""
        for pid in self._aimed:
            _send(pid, number)

    def kill(self) -> None:
        """End all of them, and wait until they have ended. Raises VoidError if one cannot be ended."""
        until = time.monotonic() + _PATIENCE
        self.signal(signal.SIGSTOP)  # nobody forks while the others are ended
        known: dict[int, int] = {}
        while True:
            everyone = processes()
            # What is about to end has no environment any more, and may have lost its parent: it is known by then.
            known |= {pid: everyone[pid][3] for pid in self._mine(everyone)}
            alive = {
                pid for pid, (_, _, state, began) in everyone.items() if known.get(pid) == began and state not in "ZX"
            }
            if not alive:
                break
            for pid in alive:
                _send(pid, signal.SIGKILL)
            if time.monotonic() > until:
                raise VoidError(f"processes {sorted(alive)} outlive SIGKILL: this machine's disk, or its kernel, hangs")
            os.sched_yield()
        bury()

    def cpu(self) -> float:
        """Seconds of CPU that those that live now, and their ended children, have taken."""
        total = 0
        for pid in self.pids(_RECENT):
            try:
                total += sum(int(ticks) for ticks in _fields(Path("/proc", str(pid)))[11:15])
            except OSError:
                continue  # it ended meanwhile
        return total / os.sysconf("SC_CLK_TCK")

    def stopped(self) -> bool:
        """Whether none of them runs."""
        everyone = processes()
        return all(everyone[pid][2] in "TtZX" for pid in self._mine(everyone))


def bury() -> None:
    """Reap adopted orphans that have ended; processes that Popen waits for are left to it."""
    everyone = processes()
    for pid, (parent, _, state, _) in everyone.items():
        if parent == os.getpid() and state == "Z" and pid not in _KEPT:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue  # somebody else was quicker


_KEPT: set[int] = set()
"""Children whose exit status somebody will ask for."""


def keep(pid: int) -> None:
    """This child's exit status will be asked for by who started it."""
    _KEPT.add(pid)


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it has ended, which is what signals are for here
