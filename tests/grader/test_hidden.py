"""What a submission hides from the kill of its processes: for builds and services, in each tier.

The table here and the one in docs/grader.md are the same.
"""

from __future__ import annotations

import ctypes
import os
import random
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from boxes import said, sandbox

from grader.errors import SubmissionError, VoidError
from grader.processes import Supervisor, prepare
from grader.sandbox import Command, Sandbox, Tree, adopt_orphans, plain
from grader.sandbox import tree as trees
from grader.submission import Submission
from grader.submission.model import Process
from grader.terms import Limits

ROOT = Path(__file__).resolve().parents[2]
STOPPED, NOT, AS_ROOT = "stopped", "not stopped", "stopped if root starts the grader"
TABLE = {
    "a process with a session of its own and an empty environment": (STOPPED,) * 6,
    "a thread whose process has lost its first thread": (STOPPED,) * 6,
    "a process that is asked over a Unix socket with a path": (STOPPED,) * 6,
    "a process that is asked over an abstract Unix socket": (STOPPED,) * 6,
    "System V shared memory": (STOPPED, AS_ROOT, NOT) * 2,
    "a file that another process maps, too": (STOPPED, STOPPED, STOPPED, STOPPED, STOPPED, NOT),
}
"""What is left, and whether it is stopped: after a build in tiers 1, 2 and 3, and after the kill of a service in them."""
CELLS = [(kind, tier) for kind in ("build", "service") for tier in (1, 2, 3)]
PROCESS, THREAD, PATH, ABSTRACT, MEMORY, FILE = TABLE

# Each program is given "leave" or "ask", a number and the folder of the one that leaves something. The helper is hidden:
# it has forked twice, has a session of its own and an empty environment. It ends after a minute, should nobody end it.
HIDES = """
import ctypes, fcntl, mmap, os, signal, socket, sys
do, number, place = sys.argv[1], int(sys.argv[2]), sys.argv[3]
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p

def hide(code, *held):
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.dup2(write, 1)
            for one in held:
                os.set_inheritable(one, True)
            code = f"import os, signal, socket, sys, threading\\nsignal.alarm(60)\\n{code}"
            os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", code, sys.argv[2], "hidden"], {})
        os._exit(0)
    os.wait()
    os.close(write)
    assert os.read(read, 1) == b"1"

def locked(name, flags):
    file = os.open(name, flags, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file
    except BlockingIOError:
        return 0

WAITS = "os.write(1, b'1'); signal.pause()"
SERVES = "s.listen(); os.write(1, b'1')\\nwhile True: s.accept()[0].send(b'state')"

def asked(address):
    with socket.socket(socket.AF_UNIX) as s:
        try:
            s.connect(address)
            return s.recv(5) == b"state"
        except OSError:
            return False
"""
ENDS = """
import ctypes
def last():
    while open(f'/proc/self/task/{os.getpid()}/stat').read().rpartition(') ')[2][0] != 'Z': pass
    os.write(1, b'1')
    threading.Event().wait()
threading.Thread(target=last).start()
ctypes.CDLL(None).syscall(ctypes.c_long({'x86_64': 60}.get(os.uname().machine, 93)), 0)
"""
PROGRAMS = {
    PROCESS: """
leave = lambda: hide(WAITS, locked("held", os.O_RDWR | os.O_CREAT))
ask = lambda: not locked(place + "/held", os.O_RDONLY)
""",
    THREAD: f"""
leave = lambda: hide({ENDS!r}, locked("held", os.O_RDWR | os.O_CREAT))
ask = lambda: not locked(place + "/held", os.O_RDONLY)
""",
    PATH: """
leave = lambda: hide("s = socket.socket(socket.AF_UNIX); s.bind('s'); os.chmod('s', 0o777); " + SERVES)
ask = lambda: os.chdir(place) or asked("s")
""",
    ABSTRACT: """
leave = lambda: hide(f"s = socket.socket(socket.AF_UNIX); s.bind('\\\\0hidden-{number}'); " + SERVES)
ask = lambda: asked(f"\\0hidden-{number}")
""",
    MEMORY: """
def leave():
    ctypes.memmove(libc.shmat(libc.shmget(number, 5, 0o1666), None, 0), b"state", 5)
def ask():
    found = libc.shmget(number, 5, 0)
    return found >= 0 and ctypes.string_at(libc.shmat(found, None, 0), 5) == b"state"
""",
    FILE: """
def mapped(name, flags, more):
    file = os.open(name, flags, 0o666)
    return file, mmap.mmap(file, 5, mmap.MAP_SHARED, more)
def leave():
    global held
    with open("shared", "wb") as file:
        file.write(bytes(5))
    held = mapped("shared", os.O_RDWR, mmap.PROT_READ | mmap.PROT_WRITE)
    held[1][:] = b"state"
    hide(WAITS, locked("shared", os.O_RDWR))
def ask():
    try:
        file, shared = mapped(place + "/shared", os.O_RDONLY, mmap.PROT_READ)
    except OSError:
        return False
    return shared[:] == b"state" and not locked(place + "/shared", os.O_RDONLY)
""",
}
ENDING = """
if do == "ask":
    print(ask())
else:
    leave()
    print("left", flush=True)
    if do == "stay":
        signal.pause()
"""


@pytest.fixture
def number() -> Iterator[int]:
    """A number for what a program leaves. Shared memory with this key is removed afterwards."""
    adopt_orphans()  # as every run does
    found = secrets.randbelow(1 << 30)
    yield found
    libc = ctypes.CDLL(None)
    libc.shmctl(libc.shmget(found, 0, 0), 0, None)
    trees.kill_all(trees.hidden)


def started(box: Sandbox, name: str, words: tuple[str, ...], data: Path) -> tuple[subprocess.Popen[bytes], Tree]:
    """A service that has printed a line."""
    data.mkdir(exist_ok=True)
    read, write = os.pipe()
    process, tree = box.start(Command(name, ("python3", "-I", "-S", "-c", *words), data, write, {}, data, (data,)))
    os.close(write)
    with os.fdopen(read, "rb") as lines:
        assert lines.readline() == b"left\n"
    return process, tree


def found_again(family: str, kind: str, tier: int, number: int, tmp: Path) -> bool:
    """Whether a service finds what a build or a killed service has left."""
    code, place = HIDES + PROGRAMS[family] + ENDING, tmp / "data"
    scratch, folder = tmp / "scratch", tmp / "team"
    for made in (scratch, folder):
        made.mkdir()
    sandbox(tier, scratch).close()  # skips where the machine has none
    if kind == "build":
        command = ("python3", "-I", "-S", "-c", code, "leave", str(number), ".")
        folder = place = prepare(Submission("team", folder, {}, (), (command,)), tmp / "cache", 60, tier).folder
    box = sandbox(tier, scratch, folder)
    try:
        if kind == "service":
            process, tree = started(box, "one", (code, "stay", str(number), str(place)), place)
            if family != FILE:
                tree.kill()
                process.wait()
        asking = tmp / "other" if family == FILE else tmp / "data"
        asking.mkdir(exist_ok=True)
        status, text = said(box, code, ("ask", str(number), str(place)), asking)
        if kind == "service":
            tree.kill()
            process.wait()
    finally:
        box.close()
    assert status == 0 and text in ("True\n", "False\n"), text
    return text == "True\n"


@pytest.mark.parametrize(("kind", "tier"), CELLS)
@pytest.mark.parametrize("family", TABLE)
def test_what_is_left_is_found_again_as_the_table_says(
    family: str, kind: str, tier: int, number: int, tmp_path: Path
) -> None:
    """A service finds what a build, a killed service or, for a file, another service keeps, only if it is not stopped."""
    says = TABLE[family][CELLS.index((kind, tier))]
    stopped = says == STOPPED or (says == AS_ROOT and os.geteuid() == 0)
    assert found_again(family, kind, tier, number, tmp_path) == (not stopped)
