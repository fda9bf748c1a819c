"""Find and kill all processes of a service, including daemons that forked twice or started a session.

The processes are found in /proc. A process belongs to a service if it descends from the service's first process, shares
its session, or has the service's number as its hard limit MARK. A process inherits this limit, has no use for it, and
cannot raise it, unless it is root. The grader adopts orphans. An orphan with such a limit that belongs to no living
service is hidden, and is killed together with the next service that is killed or paused.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from ..errors import SubmissionError, VoidError
from ..proc import cpu, stat
from .ipc import remove_unused

_SET_CHILD_SUBREAPER = 36
MARK, _MARK_LINE = "RTTIME", b"Max realtime timeout"
"""The name of the limit that contains the number of a service, and how its line in /proc begins."""
NUMBERS = itertools.count(1)
"""The numbers of services."""
_PATIENCE = 30.0
"""Seconds that the kernel may take to stop or end processes, on a busy machine."""
_STOPS = 10
"""How often processes are stopped rather than killed, as long as new ones appear."""
_MANY = 20_000
"""More dead processes than a submission can leave if its number of processes is limited."""
_RECENT = 0.5
"""The maximum age, in seconds, of a process list that is used to measure CPU time."""


def adopt_orphans() -> None:
    """Make this process the parent of all orphans among its descendants. Raises OSError if prctl fails."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


class Process(NamedTuple):
    """One line of the list of processes. ``began``: the start time in ticks since the start of the machine."""

    parent: int
    session: int
    state: str
    began: int


_Everyone = dict[int, Process]
_last: tuple[float, _Everyone] = (-1e9, {})


def processes(age: float = 0.0) -> _Everyone:
    """Return every process, by pid.

    The list is at most ``age`` seconds old. Callers share a list, because reading /proc takes milliseconds.
    """
    global _last
    if time.monotonic() - _last[0] < age:
        return _last[1]
    found: _Everyone = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = stat(Path("/proc", name))
            except OSError:
                continue  # the process has ended
            state, parent, session, count = fields[0], int(fields[1]), int(fields[3]), int(fields[17])
            if state in "ZX" and count > 1:
                state = _state_of_threads(int(name))
            found[int(name)] = Process(parent, session, state, int(fields[19]))
    _last = time.monotonic(), found
    return found


def threads(pid: int) -> list[Path]:
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
    for place in threads(pid):
        try:
            states += stat(place)[0]
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
        for place in threads(pid):
            try:
                return (place / name).read_bytes()
            except ProcessLookupError:
                continue
        raise


def _number(pid: int) -> int:
    """Return the number of the service that started a process; 0 if it was none, or if the process has been reaped."""
    try:
        lines = read_proc(pid, "limits").splitlines()
    except OSError:
        return 0
    hard = next(line.split()[-2] for line in lines if line.startswith(_MARK_LINE))
    return int(hard) if hard.isdigit() else 0


def descendants(first: Iterable[int], everyone: _Everyone) -> set[int]:
    """Return all descendants of processes, without the processes themselves."""
    children: dict[int, list[int]] = {}
    for pid, (parent, *_) in everyone.items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    left = list(first)
    while left:
        for child in children.get(left.pop(), []):
            if child not in found:
                found.add(child)
                left.append(child)
    return found


class Tree:
    """The processes of a service, given the pid of its first process. It is living until it is killed."""

    def __init__(self, first: int, number: int = 0, uid: int = -1) -> None:
        """``number``: that of the service; 0 if it has a pid namespace of its own.

        ``uid``: the user of the processes, if it is not the grader's; otherwise -1.
        """
        self.first, self._number, self.uid = first, number, uid
        self._aimed: set[int] = {first}
        _LIVING.add(self)

    def pids(self, age: float = 0.0) -> set[int]:
        """Return the live processes, from a list that is at most ``age`` seconds old. Zombies are not included."""
        everyone = processes(age)
        return {pid for pid in self.among(everyone) if everyone[pid].state not in "ZX"}

    def among(self, everyone: _Everyone) -> set[int]:
        """Return the pids of the service in a list of processes, with those that have ended."""
        below = descendants([self.first], everyone) | {self.first}
        ours = descendants([os.getpid()], everyone)
        mine = {
            pid
            for pid in ours
            if everyone[pid].session == self.first or pid in below or (self._number and _number(pid) == self._number)
        }
        return mine | descendants(mine, everyone)

    def signal(self, number: int) -> None:
        """Send a signal to all processes."""
        for pid in self.pids():
            _send(pid, number)

    def aim(self) -> set[int]:
        """Find the processes now, which takes milliseconds, so that `strike` can send its signal without delay."""
        self._aimed = self.pids() | {self.first}
        return self._aimed

    def strike(self, number: int) -> None:
        """Send a signal without delay to the processes that the last `aim` found."""
        for pid in self._aimed:
            _send(pid, number)

    def kill(self) -> None:
        """Kill all processes and all hidden ones, and wait until they have ended. Raises as `kill_all`."""
        kill_trees({self})

    def pause(self) -> bool:
        """Stop all processes, and kill all hidden ones, which could resume them.

        Returns whether all of them were stopped in two lists in a row. If not, something resumes them.
        """
        until, before = time.monotonic() + _PATIENCE, None
        while time.monotonic() < until:
            everyone = processes()
            mine = self.among(everyone)
            if any(everyone[pid].state not in "ZX" for pid in hidden(everyone)):
                kill_all(hidden)
            elif mine == before and self.stopped(everyone):
                return True
            for pid in mine:
                _send(pid, signal.SIGSTOP)
            before = mine
        return False

    def cpu(self) -> float:
        """Return the CPU seconds of all processes, including zombies, and of the children that they waited for."""
        return sum(map(cpu, self.among(processes(_RECENT))))

    def stopped(self, everyone: _Everyone | None = None) -> bool:
        """Return whether every process is stopped, will be stopped before its next instruction, or has ended."""
        everyone = everyone or processes()
        return all(everyone[pid].state in "TtDZX" for pid in self.among(everyone))


_LIVING: set[Tree] = set()


def kill_trees(trees: set[Tree]) -> None:
    """Kill the processes of services and all hidden ones. Also remove what they share. Raises as `kill_all`."""
    _LIVING.difference_update(trees)
    kill_all(lambda everyone: hidden(everyone).union(*(tree.among(everyone) for tree in trees)))
    for uid in {tree.uid for tree in trees} - {-1}:
        remove_unused(uid, (pid for pid, process in processes().items() if process.state not in "ZX"))


def kill_all(find: Callable[[_Everyone], set[int]]) -> None:
    """Kill the processes that ``find`` returns for the list of all processes, and wait until there are none.

    They are stopped first, so that none forks while others are killed. Those that have ended are not reaped until then:
    they count towards the limit on processes, so a submission that forks and exits endlessly reaches this limit.

    Raises SubmissionError if new ones keep appearing, and VoidError if the same ones do not end.
    """
    until, looks, grown, calm = time.monotonic() + _PATIENCE, 0, 0, 0
    known: dict[tuple[int, int], float] = {}
    while True:
        everyone, now = processes(), time.monotonic()
        # A process that is ending may have lost its parent, so remember all that were found.
        new = {(pid, everyone[pid].began) for pid in find(everyone)} - known.keys()
        known |= dict.fromkeys(new, now)
        alive = {
            pid: known[pid, process.began]
            for pid, process in everyone.items()
            if process.state not in "ZX" and (pid, process.began) in known
        }
        # A list is not made at once, so it can miss a process that forks and exits. Look again if there were such.
        calm = 0 if alive or new else calm + 1
        if calm > min(grown, _STOPS):
            break
        grown, looks = grown + bool(new and looks), looks + 1
        for pid in alive:
            _send(pid, signal.SIGSTOP if new and looks <= _STOPS else signal.SIGKILL)
        if now > until:
            if stuck := sorted(pid for pid, seen in alive.items() if now - seen > _PATIENCE / 2):
                raise VoidError(f"processes {stuck} have survived SIGKILL; restart the machine")
            raise SubmissionError("its processes start new ones faster than they can be killed; do not fork endlessly")
        if len(known) > _MANY:
            bury(everyone)
        os.sched_yield()
    bury(everyone)


def hidden(everyone: _Everyone) -> set[int]:
    """Return the adopted orphans that no living service claims, with all of their descendants."""
    orphans = _orphans(everyone)
    if not orphans:
        return orphans
    found = orphans | descendants(orphans, everyone)
    return found.difference(*(tree.among(everyone) for tree in _LIVING))


def _orphans(everyone: _Everyone) -> set[int]:
    """Return the children of this process that a sandbox has started, and that no Popen object waits for."""
    here, session = os.getpid(), os.getsid(0)
    return {
        pid
        for pid, process in everyone.items()
        if process.parent == here and process.session != session and _KEPT.get(pid) != process.began and _number(pid)
    }


def bury(everyone: _Everyone) -> None:
    """Reap adopted orphans that have ended."""
    for pid in _orphans(everyone):
        if everyone[pid].state == "Z":
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue  # already reaped


_KEPT: dict[int, int] = {}
"""The start times of children that a Popen object waits for, by pid. A pid can be used again."""


def keep(pid: int) -> None:
    """Record that the grader has started this child and waits for it, so that it is neither killed nor reaped here."""
    _KEPT[pid] = int(stat(Path("/proc", str(pid)))[19])


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it has ended
