"""What a submission hides from the kill of its processes: for builds and services, in each tier.

The table here and the one in docs/grader.md are the same.
"""

from __future__ import annotations

import ctypes
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import boxes
import pytest
from boxes import said, sandbox

from grader.errors import SubmissionError, VoidError
from grader.processes import Supervisor, prepare
from grader.sandbox import Sandbox, Tree, adopt_orphans, command
from grader.sandbox import tree as trees
from grader.submission import Submission
from grader.submission.model import Process
from grader.terms import Limits
from grader.wire.client import Generator

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
"""What is left, and whether it is stopped: after a build in tiers 1, 2 and 3, and after a service's kill in them."""
CELLS = [(kind, tier) for kind in ("build", "service") for tier in (1, 2, 3)]
PROCESS, THREAD, PATH, ABSTRACT, MEMORY, FILE = TABLE

# Each program is given "leave", "stay" or "ask", a number, and the folder of the one that leaves something. Its helper
# is hidden: it has forked twice, has a session of its own and an empty environment. An alarm ends it after a minute.
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
def leave():
    name = f"hidden-{number}"
    if os.path.exists(name):
        os.unlink(name)
    hide(f"s = socket.socket(socket.AF_UNIX); s.bind('{name}'); os.chmod('{name}', 0o777); {SERVES}")
ask = lambda: os.chdir(place) or asked(f"hidden-{number}")
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


def started(box: Sandbox, words: tuple[str, ...], data: Path) -> tuple[subprocess.Popen[bytes], Tree]:
    """A service in Python that has printed that it has left something."""
    data.mkdir(exist_ok=True)
    process, tree, line = boxes.started(box, ("python3", "-I", "-S", "-c", *words), data, data)
    assert line == "left\n"
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
            process, tree = started(box, (code, "stay", str(number), str(place)), place)
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
    """A service finds what a build, a killed service or, for a file, another service has left, if it is not stopped."""
    says = TABLE[family][CELLS.index((kind, tier))]
    stopped = says == STOPPED or (says == AS_ROOT and os.geteuid() == 0)
    assert found_again(family, kind, tier, number, tmp_path) == (not stopped)


@pytest.mark.parametrize("family", [PROCESS, THREAD, PATH, ABSTRACT])
def test_without_the_guard_it_is_found_again(
    family: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the limit that they inherit, the processes live on, so the attempts above are real ones."""
    with monkeypatch.context() as unguarded:
        unguarded.setattr(trees, "_number", lambda pid: 0)
        assert found_again(family, "service", 3, number, tmp_path)


def test_a_living_service_keeps_its_daemons(number: int, tmp_path: Path) -> None:
    """What a service hides is not killed with another service, but with its own."""
    box, code = sandbox(3, tmp_path), HIDES + PROGRAMS[PROCESS] + ENDING
    place = tmp_path / "data"
    running = [started(box, (code, "stay", str(number), "."), tmp_path / folder) for folder in ("data", "other")]
    for (process, tree), expected in zip(reversed(running), ("True\n", "False\n"), strict=True):
        tree.kill()
        process.wait()
        assert said(box, code, ("ask", str(number), str(place)), place) == (0, expected)


def test_the_docs_have_the_same_table() -> None:
    """docs/grader.md says for each kind, each tier, and for builds and services, whether it is stopped."""
    lines = (ROOT / "docs" / "grader.md").read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("| what is left after"))
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines[first : first + len(TABLE) + 2]]
    assert rows[0][1:] == [f"{kind}, tier {tier}" for kind, tier in CELLS]
    assert {row[0]: tuple(row[1:]) for row in rows[2:]} == TABLE


CHILD = """
import os, signal, sys
if sys.argv[1] != "orphan" or os.fork() == 0:
    if sys.argv[1] == "orphan":
        os.setsid()
    print(os.getpid(), flush=True)
    signal.alarm(60)
    signal.pause()
"""


@pytest.fixture
def foreign() -> Iterator[list[int]]:
    """Children of this process that no sandbox has started: in its session, in their own, and an orphan."""
    adopt_orphans()
    begun, pids = [], []
    for how in ("child", "alone", "orphan"):
        words = [sys.executable, "-S", "-c", CHILD, how]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=how == "alone")
        assert process.stdout is not None
        pids.append(int(process.stdout.readline()))
        begun.append(process)
    yield pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for process in begun:
        process.communicate()
    os.waitpid(pids[2], 0)


def test_children_of_the_grader_live_on(foreign: list[int], number: int, tmp_path: Path) -> None:
    """A kill ends what a service hides, but no child that another test or the program around the grader has started."""
    begun = trees.processes()
    assert not found_again(PROCESS, "service", 3, number, tmp_path)
    now = trees.processes()
    assert all(now[pid].began == begun[pid].began and now[pid].state not in "ZX" for pid in foreign)


def test_an_ended_childs_status_is_left_to_its_program(number: int, tmp_path: Path) -> None:
    """A child of the program around the grader that ends during a kill is not reaped."""
    with subprocess.Popen(["sh", "-c", "exit 7"], start_new_session=True) as process:
        while trees.processes()[process.pid].state != "Z":
            os.sched_yield()
        assert not found_again(PROCESS, "service", 3, number, tmp_path)
    assert process.returncode == 7


# Each process ends as soon as it has a child, in a session of its own. It ends by itself after a while.
CHAIN = """
import os, time
until = time.monotonic() + float({seconds})
print("left", flush=True)
while time.monotonic() < until:
    try:
        if os.fork():
            os._exit(0)
        os.setsid()
    except OSError:
        pass
"""


@pytest.mark.parametrize("tier", [1, 2])
def test_a_chain_of_forks_does_not_outrun_a_kill(
    tier: int, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that fork and exit endlessly count towards the limit on processes until all of them are killed."""
    alone = os.geteuid() == 0
    monkeypatch.setitem(command.LIMITS, "NPROC", 100 if alone else 100 + len(trees.processes()))
    (tmp_path / "scratch").mkdir()
    box = sandbox(tier, tmp_path / "scratch")
    try:
        process, tree = started(box, (CHAIN.format(seconds=60),), tmp_path / "data")
        tree.kill()
        process.wait()
        assert not tree.pids() and not trees.hidden(trees.processes())
    finally:
        box.close()


@pytest.mark.parametrize(
    ("code", "error", "says"),
    [
        (CHAIN.format(seconds=3), SubmissionError, "start new ones faster than they can be killed"),
        ("print('left', flush=True); import signal; signal.pause()", VoidError, "have survived SIGKILL"),
    ],
)
def test_whose_fault_it_is_that_a_kill_does_not_end(
    code: str, error: type[Exception], says: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If new processes keep appearing, the submission fails. If the same ones stay, the run is void."""
    process, tree = started(sandbox(3, tmp_path), (code,), tmp_path / "data")
    with monkeypatch.context() as stuck:
        stuck.setattr(trees, "_PATIENCE", 0.5)
        stuck.setattr(trees, "_send", lambda pid, number: None)
        with pytest.raises(error, match=says):
            tree.kill()
    tree.kill()  # the chain ends by itself
    process.wait()


class Scout(Generator):
    """Probes no ports."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(["true"])

    def ports(self, count: int) -> list[int]:
        return list(range(1024, 1024 + count))

    def close(self) -> None:
        self._process.wait()


HELPED = (
    HIDES
    + """
hide("os.write(1, b'1')\\nwhile True: os.kill(%d, signal.SIGCONT)" % os.getpid())
print("left", flush=True)
while True: pass
"""
)


def test_a_pause_holds_or_is_the_submissions_fault(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hidden process cannot resume a service, because it is killed. If one runs on, the submission fails."""
    box = sandbox(3, tmp_path)
    scout, team = Scout(), Submission("team", tmp_path, {}, (Process("one", "other", ("sleep", "60")),))
    supervisor = Supervisor(team, tmp_path, tmp_path, box, scout, Limits(), lambda *words: None)
    process, tree = started(box, (HELPED, "leave", "0", "."), tmp_path / "data")
    supervisor._services["one"].tree, supervisor._services["one"].popen = tree, process
    supervisor.pause("one")
    assert tree.stopped() and not trees.hidden(trees.processes())
    tree.signal(signal.SIGCONT)
    with monkeypatch.context() as resumed:
        resumed.setattr(trees, "_PATIENCE", 0.5)
        resumed.setattr(trees, "_send", lambda pid, number: None)
        resumed.setattr(supervisor, "freeze", lambda names: None)
        with pytest.raises(SubmissionError, match="a process of one cannot be paused, because something resumes it"):
            supervisor.pause("one")
    supervisor.close()
    scout.close()
    assert process.returncode == -signal.SIGKILL


LEFT = (PATH, ABSTRACT, MEMORY)
ALL = HIDES + "".join(f"{PROGRAMS[family]}\nleave()\n" for family in LEFT) + ENDING.replace("    leave()\n", "")
TINY = """
base_url = "http://127.0.0.1:{{port:shop}}"
build = [["python3", "-I", "-S", "shop.py", "leave", "{number}", "."]]
[[process]]
name = "shop"
command = ["python3", "-I", "-S", "{{submission}}/shop.py", "{do}", "{number}", "."]
cwd = "{{data}}"
ready = {{ tcp = "{{port}}" }}
"""
# A tier is chosen by taking away what the better ones need.
WITHOUT = """
import sys
from grader.errors import VoidError
from grader.sandbox import locked, tiers
def missing(*words):
    raise VoidError("not here")
if {tier} > 1:
    tiers.Walls = missing
if {tier} > 2:
    locked.landlock = lambda: 0
from grader.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def left(number: int) -> list[str]:
    """The processes, the sockets and the shared memory with a number."""
    processes = [
        str(pid)
        for pid, process in trees.processes().items()
        if process.state not in "ZX" and str(number).encode() in cmdline(pid)
    ]
    shared = [line for line in Path("/proc/sysvipc/shm").read_text().splitlines() if line.split()[0] == str(number)]
    return processes + shared + re.findall(rf".*{number}.*", Path("/proc/net/unix").read_text())


def cmdline(pid: int) -> bytes:
    try:
        return trees.read_proc(pid, "cmdline")
    except OSError:
        return b""  # it has ended


@pytest.mark.parametrize(("tier", "end"), [(2, 0), (3, signal.SIGINT), (1, signal.SIGTERM), (1, signal.SIGKILL)])
def test_nothing_is_left_of_a_run(tier: int, end: int, number: int, tmp_path: Path) -> None:
    """After the end of a run, Ctrl-C and SIGTERM nothing is left; in tier 1 no process even after SIGKILL.

    What tier 3 does not stop, System V shared memory, stays there.
    """
    for name in ("scratch", "cache", "team", "probe"):
        (tmp_path / name).mkdir()
    sandbox(tier, tmp_path / "probe").close()
    do = "stay" if end else "leave"
    (tmp_path / "team" / "checkout.toml").write_text(TINY.format(number=number, do=do))
    (tmp_path / "team" / "shop.py").write_text(ALL)
    words = [sys.executable, "-c", WITHOUT.format(tier=tier), "checkout", str(tmp_path / "team"), "--quick"]
    env = {**os.environ, "TMPDIR": str(tmp_path / "scratch"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    words += ["--report", str(tmp_path / "out")]
    with subprocess.Popen(words, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as run:
        assert run.stdout is not None
        if end:
            until = time.monotonic() + 60
            while not (serves := serving(number)) and time.monotonic() < until and run.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    run.wait(0.05)
            assert serves
            run.send_signal(end)
        text = run.communicate(timeout=120)[0].decode()
    assert run.returncode == {0: 1, signal.SIGKILL: -signal.SIGKILL}.get(end, 130), text
    assert end or (text.count("| left") == 3 and "shop exited with 0 before it was ready" in text), text
    until = time.monotonic() + 60
    while end == signal.SIGKILL and left(number) and time.monotonic() < until:
        os.sched_yield()  # the kernel ends a namespace's processes in the background
    found = left(number)
    if tier == 3 or (tier == 2 and os.geteuid() != 0):
        found = [line for line in found if line.split()[0] != str(number)]
    assert found == []
    assert end == signal.SIGKILL or not any((tmp_path / "scratch").iterdir())


def serving(number: int) -> bool:
    """Whether a service has hidden both processes."""
    lines = [line for line in map(cmdline, trees.processes()) if str(number).encode() in line]
    return any(b"stay" in line for line in lines) and sum(line.endswith(b"\0hidden\0") for line in lines) == 2
