"""Find and kill all processes of a service, including daemons that forked twice or started a session.

The processes are found in /proc. A process belongs to a service if it descends from the service's first process, shares
its session, or has the service's mark in its initial environment. The grader adopts orphans, so a process that meets
none of these conditions still belongs to the run, and is killed when the run ends.
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
"""Seconds that the kernel may take to end processes after SIGKILL, on a busy machine."""
_RECENT = 0.5
"""The maximum age, in seconds, of a process list that is used to measure CPU time."""


def adopt_orphans() -> None:
    """Make this process the parent of all orphans among its descendants. Raises OSError if prctl fails."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


_Everyone = dict[int, tuple[int, int, str, int]]
_last: tuple[float, _Everyone] = (-1e9, {})


def processes(age: float = 0.0) -> _Everyone:
    """Return the parent, session, state and start time in ticks of every process, by pid.

    The list is at most ``age`` seconds old. Callers share a list, because reading /proc takes milliseconds.
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
                continue  # the process has ended
            state, parent, session, threads = fields[0], int(fields[1]), int(fields[3]), int(fields[17])
            if state in "ZX" and threads > 1:
                state = _state_of_threads(int(name))
            found[int(name)] = parent, session, state, int(fields[19])
    _last = time.monotonic(), found
    return found


def _fields(place: Path) -> list[str]:
    """Return the fields of /proc/.../stat, starting with the state. Raises OSError if ``place`` no longer exists."""
    return (place / "stat").read_text(errors="replace").rpartition(") ")[2].split()


def _threads(pid: int) -> list[Path]:
    """Return the /proc folder of each thread of a process; an empty list if the process has ended."""
    place = Path("/proc", str(pid), "task")
    try:
        return [place / name for name in os.listdir(place)]
    except OSError:
        return []


def _state_of_threads(pid: int) -> str:
    """Return the state of a process whose first thread has ended, taken from its other threads.

    Such a process looks like a zombie but is still running.
    """
    states = "Z"
    for place in _threads(pid):
        try:
            states += _fields(place)[0]
        except OSError:
            continue  # the thread has ended
    return min(states, key=lambda state: "TtZX".find(state))


def read_proc(pid: int, name: str) -> bytes:
    """Return the content of a file in the /proc folder of a process. Raises OSError if the process has ended.

    If its first thread has ended, the file is read from the folder of another thread.
    """
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
        return mark in read_proc(pid, "environ").split(b"\0")
    except OSError:
        return False


def descendants(first: int, everyone: _Everyone) -> set[int]:
    """Return all descendants of a process, without the process itself."""
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
    """The processes of a service, given the pid of its first process and its mark."""

    def __init__(self, first: int, mark: str) -> None:
        self.first, self._mark = first, f"{MARK}={mark}".encode()
        self._aimed: set[int] = {first}

    def pids(self, age: float = 0.0) -> set[int]:
        """Return the live processes, from a list that is at most ``age`` seconds old. Zombies are not included."""
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
        """Send a signal to all processes. Repeat this until no new process appears, so that no fork is missed."""
        seen: set[int] = set()
        while new := self.pids() - seen:
            for pid in new:
                _send(pid, number)
            seen |= new

    def aim(self) -> None:
        """Find the processes now, which takes milliseconds, so that `strike` can send its signal without delay."""
        self._aimed = self.pids() | {self.first}

    def strike(self, number: int) -> None:
        """Send a signal without delay to the processes that the last `aim` found."""
        for pid in self._aimed:
            _send(pid, number)

    def kill(self) -> None:
        """Kill all processes and wait until they have ended. Raises VoidError if one does not end."""
        until = time.monotonic() + _PATIENCE
        self.signal(signal.SIGSTOP)  # so that no process forks while others are killed
        known: dict[int, int] = {}
        while True:
            everyone = processes()
            # A process that is ending has lost its environment and perhaps its parent, so remember all that were found.
            known |= {pid: everyone[pid][3] for pid in self._mine(everyone)}
            alive = {
                pid for pid, (_, _, state, began) in everyone.items() if known.get(pid) == began and state not in "ZX"
            }
            if not alive:
                break
            for pid in alive:
                _send(pid, signal.SIGKILL)
            if time.monotonic() > until:
                raise VoidError(f"processes {sorted(alive)} have survived SIGKILL; restart the machine")
            os.sched_yield()
        bury()

    def cpu(self) -> float:
        """Return the CPU seconds of all processes, including zombies, and of the children that they waited for."""
        total = 0
        for pid in self._mine(processes(_RECENT)):
            try:
                total += sum(int(ticks) for ticks in _fields(Path("/proc", str(pid)))[11:15])
            except OSError:
                continue  # the process has ended
        return total / os.sysconf("SC_CLK_TCK")

    def stopped(self) -> bool:
        """Return whether every process is stopped or has ended."""
        everyone = processes()
        return all(everyone[pid][2] in "TtZX" for pid in self._mine(everyone))


def ticks() -> int:
    """Return the time since the start of the machine, in the unit of a process's start time."""
    return int(float(Path("/proc/uptime").read_text().split()[0]) * os.sysconf("SC_CLK_TCK"))


def end_orphans(since: int) -> None:
    """Kill the adopted orphans that have started since then (`ticks`), with their children.

    They are in other sessions, and no Popen object waits for them. Call this only while one sandbox is in use. Raises
    VoidError if one does not end.
    """
    until = time.monotonic() + _PATIENCE
    while True:
        everyone, here = processes(), os.getpid()
        orphans = {
            pid
            for pid, (parent, session, state, began) in everyone.items()
            if parent == here and session != os.getsid(0) and pid not in _KEPT and state not in "ZX" and began >= since
        }
        if not orphans:
            break
        for pid in orphans.union(*(descendants(orphan, everyone) for orphan in orphans)):
            _send(pid, signal.SIGKILL)
        if time.monotonic() > until:
            raise VoidError(f"processes {sorted(orphans)} have survived SIGKILL; restart the machine")
        os.sched_yield()
    bury()


def bury() -> None:
    """Reap adopted orphans that have ended, except processes that a Popen object waits for."""
    everyone = processes()
    for pid, (parent, _, state, _) in everyone.items():
        if parent == os.getpid() and state == "Z" and pid not in _KEPT:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue  # already reaped


_KEPT: set[int] = set()
"""Children that a Popen object waits for."""


def keep(pid: int) -> None:
    """Record that a Popen object waits for this child, so that `bury` does not reap it."""
    _KEPT.add(pid)


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it has ended
