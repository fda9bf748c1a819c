"""What a lab's code may use: time, memory, files, modules, and a uid of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from grader.errors import VoidError
from grader.outcomes import Outcome
from grader.sandbox import LAB, Programs, Tier, choose, make, no_grades, own_uid, uids
from grader.sandbox.programs import ONLY_THE_GRADERS
from grader.worker import Worker
from grader.worker import answers as said
from grader.worker.allowance import Allowance, queued
from grader.worker.protocol import LateError

ROOT = Path(__file__).resolve().parents[2]
Make = Callable[..., Worker]
_PYTHON = f"/usr/bin/python3.{sys.version_info.minor}"


@pytest.fixture
def make_worker() -> Iterator[Make]:
    """A worker for a module's text, in the best tier of this machine or in the given one."""
    with ExitStack() as stack:

        def one(text: str, tier: int = 0, programs: Programs = LAB, **more: Any) -> Worker:
            tmp = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lab-")))
            tmp.chmod(0o711)
            folder, scratch = tmp / "solution", tmp / "scratch"
            folder.mkdir()
            scratch.mkdir()
            (folder / "solution.py").write_text(text)
            try:
                owner = own_uid() if programs is LAB else None
                if tier:
                    box = make(tier, scratch, folder, programs, owner=owner)
                else:
                    _, box = choose(scratch, folder, programs, owner)
            except VoidError as error:
                pytest.skip(f"{error}; install or enable it, and this runs")
            stack.callback(box.close)
            return stack.enter_context(Worker(box, Tier(tier, "", ""), folder, "solution", scratch, **more))

        yield one


GROWS = """
import os, signal
def alone(mib):
    return len(bytes(mib << 20)) >> 20
def together(processes, mib, seconds):
    pids = []
    for _ in range(processes):
        pid = os.fork()
        if not pid:
            held = bytearray(b"1" * (mib << 20))
            signal.pause()
        pids.append(pid)
    while not all(open(f"/proc/{pid}/stat").read().rpartition(") ")[2][0] == "S" for pid in pids): pass
    signal.sigtimedwait([signal.SIGUSR1], seconds)  # the grader looks a few times a second
    return "done"
def files(many, size, seconds):
    for n in range(many):
        with open(str(n), "wb") as file:
            file.write(bytes(size))
    signal.sigtimedwait([signal.SIGUSR1], seconds)  # the grader looks a few times a second
    return "done"
"""


def test_memory_and_files_are_limited(make_worker: Make) -> None:
    """One process fails at the lab's memory, several together and too many files end the process, and work goes on."""
    large, small = make_worker(GROWS, memory=2 << 30), make_worker(GROWS, memory=200 << 20)
    for worker, enough in ((large, True), (small, False)):
        assert worker.call("alone", 300, seconds=30).kind == (said.VALUE if enough else Outcome.ERROR)
        kind = worker.call("together", 4, 80, 1 if enough else 60, seconds=60).kind
        assert kind == (said.VALUE if enough else Outcome.CRASH)
        assert worker.call("alone", 20, seconds=30).same(20)
    assert small.call("together", 4, 80, 60, seconds=60).why == "more than 200 MiB of memory"
    assert small.call("files", 100, 1000, 0, seconds=30).same("done")
    small.restart()
    assert small.call("files", 501, 1, 60, seconds=60).why == "more than 64 MiB or 500 files written"
    assert small.call("files", 3, 30 << 20, 60, seconds=60).why == "more than 64 MiB or 500 files written"
    assert small.call("files", 1, 65 << 20, 0, seconds=30).why.startswith("OSError: [Errno 27] File too large")


PACKAGES = f"""
import os, sys
def lists():
    return "numpy" in os.listdir({os.path.dirname(os.path.dirname(str(sys.modules["pytest"].__file__)))!r})
def imports():
    sys.meta_path = [finder for finder in sys.meta_path if finder.__name__ != "Only"]
    sys.path.append({os.path.dirname(os.path.dirname(str(sys.modules["pytest"].__file__)))!r})
    import pluggy
    return pluggy.__name__
"""


@pytest.mark.skipif(sys.prefix == sys.base_prefix, reason="the grader has no environment of its own; make one")
@pytest.mark.parametrize("tier", [1, 2])
def test_the_graders_packages_are_out_of_reach(tier: int, make_worker: Make) -> None:
    """A service of the checkout reads and imports the grader's packages. A lab's code cannot, whatever it patches."""
    assert make_worker(PACKAGES, tier, ONLY_THE_GRADERS).call("imports").same("pluggy")
    worker = make_worker(PACKAGES, tier)
    assert worker.call("lists").kind == Outcome.ERROR and worker.call("imports").kind == Outcome.ERROR


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its uid; run the tests as root")
@pytest.mark.parametrize("tier", [2, 3])
def test_submissions_at_the_same_time_have_different_uids(tier: int, make_worker: Make) -> None:
    """Two workers have two uids, none of which is the grader's; after a restart it is another one."""
    text = "import os\ndef who(): return os.getuid()\ndef stops(pid): os.kill(pid, 9)\ndef pid(): return os.getpid()\n"
    first, second = make_worker(text, tier), make_worker(text, tier)
    found = [worker.call("who").value for worker in (first, second)]
    first.restart()
    found.append(first.call("who").value)
    assert len(set(found)) == 3 and all(uid >= 20_000 for uid in found)
    assert "PermissionError" in first.call("stops", second.call("pid").value).why
    assert "PermissionError" in first.call("stops", os.getpid()).why


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its uid; run the tests as root")
def test_a_uid_is_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A uid that is reserved, even by another process, or that a process has, is not given again."""
    monkeypatch.setattr("grader.sandbox.uids.secrets.randbelow", lambda many: 7)
    uid, lock = uids.reserve()
    other = "from grader.sandbox import uids; uids.secrets.randbelow = lambda many: 7; uids.reserve()"
    done = subprocess.run([sys.executable, "-c", other], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert "VoidError: this machine has no unused uid" in done.stderr
    lock.close()
    again, lock = uids.reserve()
    lock.close()
    assert again == uid
    monkeypatch.setattr("grader.sandbox.uids.owner", lambda pid: uid)
    with pytest.raises(VoidError, match="no unused uid"):
        uids.reserve()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its uid; run the tests as root")
def test_a_process_whose_name_is_not_utf_8_is_killed() -> None:
    """The name of a process is in /proc, and can have any bytes."""
    uid, lock = uids.reserve()
    with lock, tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        program = shutil.copy("/bin/sh", os.fsencode(folder) + b"/\xff")
        with subprocess.Popen([program], user=uid, stdin=subprocess.PIPE) as process:
            uids.clear(uid)
            assert process.wait(60) == -signal.SIGKILL


def test_which_tiers_give_grades(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bubblewrap; Landlock from ABI 6 on, or with root; as root also limits, if no user can read the hidden checks."""
    monkeypatch.setattr("grader.sandbox.tiers.os.geteuid", lambda: 1000)
    tiers = [Tier(1, "", ""), Tier(2, "", "", 6), Tier(2, "", "", 5), Tier(3, "", "")]
    assert [bool(no_grades(tier)) for tier in tiers] == [False, False, True, True]
    assert "ABI 5" in no_grades(tiers[2]) and "install bubblewrap" in no_grades(tiers[3])
    monkeypatch.setattr("grader.sandbox.tiers.os.geteuid", lambda: 0)
    with tempfile.TemporaryDirectory() as open_to_all:
        os.chmod(open_to_all, 0o755)
        folder = Path(open_to_all, "bundle")
        folder.mkdir(mode=0o755)
        assert [no_grades(tier, [folder])[:10] for tier in tiers] == ["", "", "", "every user"]
        folder.chmod(0o700)
        assert not no_grades(tiers[3], [folder])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to lose; run the tests as root")
@pytest.mark.parametrize("tier", [1, 2, 3])
def test_a_labs_code_has_no_capabilities(tier: int, make_worker: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """If all that it needs is open to its uid, it has no capability, and no program can give it one."""
    monkeypatch.setattr(Programs, "prefixes", [])  # a Python in a folder of root's needs the capability to enter it
    code = "def status(): return [line.split() for line in open('/proc/self/status') if line[:3] in ('Cap', 'NoN')]\n"
    worker = make_worker(code, tier) if os.path.exists(_PYTHON) else pytest.skip(f"install {_PYTHON}, and this runs")
    monkeypatch.setattr(Programs, "path", "/usr/bin")
    found = dict(worker.call("status").value)
    assert found.pop("NoNewPrivs:") == "1"
    assert [int(found[f"Cap{name}:"], 16) for name in ("Inh", "Prm", "Eff", "Amb")] == [0] * 4


CHAIN = """
import os
def begin():
    if os.fork():
        return "begun"
    while True:
        try:
            if os.fork():
                os._exit(0)
            os.setsid()
        except OSError:
            pass
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root limits the processes of a lab's code; run the tests as root")
@pytest.mark.parametrize("tier", [1, 2, 3])
def test_a_chain_of_forks_ends_with_its_worker(tier: int, make_worker: Make) -> None:
    """Processes that fork and exit endlessly do not survive a restart, and make nothing void."""
    worker = make_worker(CHAIN, tier)
    assert worker.call("begin").same("begun")
    worker.restart()
    assert worker.call("begin").same("begun")


class Machine:
    """A clock, and the times of a process, for an `Allowance`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, known: bool = True) -> None:
        """``known``: whether the system tells how long the process has waited for a core."""
        self.now, self.used, self.queued, self.known = 100.0, 0.0, 0.0, known
        monkeypatch.setattr("grader.worker.allowance.time.monotonic", lambda: self.now)
        self.allowance = Allowance(lambda: self.used, lambda: self.queued if self.known else None)

    def question(self, seconds: float, used: float = 0.01, queued: float = 0.0, looks: int = 10) -> None:
        """Ask something that takes ``seconds``, and ``used`` seconds of CPU time. ``queued``: waiting for a core."""
        self.allowance.asked()
        for _ in range(looks):
            self.now += seconds / looks
            self.used += used / looks
            self.queued += queued / looks
            self.allowance.look()
        self.allowance.answered()


@pytest.mark.parametrize(("known", "queued", "waited"), [(True, 0.0, False), (True, 0.7, True), (False, 0.7, True)])
def test_waiting_is_limited_too(known: bool, queued: float, waited: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times the CPU seconds of a check is the most that all its questions may wait together.

    The machine may be the reason only if the process has waited for a core, or if the system does not tell.
    """
    machine = Machine(monkeypatch, known)
    machine.allowance.limit(2)
    for _ in range(19):
        machine.question(1)
        machine.now += 100  # between two questions, the grader works
    with pytest.raises(LateError, match="more than 20 s") as late:
        machine.question(1.2, queued=queued)
    assert late.value.waited == waited and not late.value.spent
    machine.allowance.limit(2)
    machine.question(1)
    with pytest.raises(LateError, match="no use of the CPU, for 5 s") as late:
        machine.question(8, 0, 8 * queued / 5)
    assert late.value.waited == waited and not late.value.spent


def test_the_time_of_all_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A submission has 60 s of CPU time, and 30 s without; waiting for a core is not counted."""
    for seconds, used, why, waited in ((20, 20, "60 s of CPU time", True), (10, 0.01, "30 s without", False)):
        machine = Machine(monkeypatch)
        for _ in range(3):
            machine.allowance.limit(30)
            machine.question(seconds, used)
        with pytest.raises(LateError, match=f"more than {why}.* for all checks together") as late:
            machine.question(1)
        assert late.value.spent and late.value.waited == waited
    machine = Machine(monkeypatch)
    for _ in range(100):
        machine.allowance.limit(2)
        machine.question(10, 0.5, 9.3)
    with pytest.raises(LateError, match="more than 30 s without"):
        machine.question(12, 0.5)


def test_a_second_worker_has_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seconds of an earlier one count, with the CPU and without."""
    machine = Machine(monkeypatch)
    machine.allowance.limit(30)
    machine.question(25, 1)
    assert machine.allowance.idled() == pytest.approx(24)
    second = Allowance(lambda: machine.used, lambda: 0.0, machine.allowance.idled())
    second.limit(30)
    machine.allowance = second
    machine.question(5, 0.5)
    with pytest.raises(LateError, match="more than 30 s without"):
        machine.question(2)


def test_both_workers_together(monkeypatch: pytest.MonkeyPatch, make_worker: Make) -> None:
    """What the first worker has used is not allowed to the second one."""
    monkeypatch.setattr("grader.worker.allowance.MOST_CPU", 1)
    busy = "import time\ndef busy(until):\n    while time.process_time() < until: pass\n"
    first = make_worker(busy)
    assert first.call("busy", 0.7).same(None)
    assert make_worker(busy).call("busy", 0.7).same(None)
    late = make_worker(busy, after=first).call("busy", 2)
    assert late.kind == "timeout" and late.why.endswith("for all checks together")


def test_the_system_tells_how_long_threads_wait_for_a_core() -> None:
    """The time of this process grows; that of a process that has ended is not known."""
    before = queued([os.getpid()])
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    after = queued([os.getpid()])
    assert before is not None and after is not None and 0 <= before <= after
    with subprocess.Popen(["/bin/true"]) as process:
        process.wait()
        assert queued([process.pid]) is None
    assert queued([]) == 0
