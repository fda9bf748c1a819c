"""What a lab's code may use: time, memory, files, modules, and a uid of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from grader.errors import VoidError
from grader.sandbox import LAB, Programs, Tier, choose, make, no_grades, uids
from grader.sandbox.programs import ONLY_THE_GRADERS
from grader.worker import Worker
from grader.worker import answers as said
from grader.worker.allowance import Allowance
from grader.worker.protocol import LateError

ROOT = Path(__file__).resolve().parents[2]
Make = Callable[..., Worker]
_PYTHON = f"/usr/bin/python3.{sys.version_info.minor}"


@pytest.fixture
def make_worker() -> Iterator[Make]:
    """A worker for a module's text, in the best tier of this machine or in the given one."""
    with ExitStack() as stack:

        def one(text: str, tier: int = 0, programs: Programs = LAB, **more: int) -> Worker:
            tmp = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lab-")))
            tmp.chmod(0o711)
            folder, scratch = tmp / "solution", tmp / "scratch"
            folder.mkdir()
            scratch.mkdir()
            (folder / "solution.py").write_text(text)
            try:
                box = make(tier, scratch, folder, programs) if tier else choose(scratch, folder, programs)[1]
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
        assert worker.call("alone", 300, seconds=30).kind == (said.VALUE if enough else said.ERROR)
        kind = worker.call("together", 4, 80, 1 if enough else 60, seconds=60).kind
        assert kind == (said.VALUE if enough else said.CRASH)
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
    assert worker.call("lists").kind == said.ERROR and worker.call("imports").kind == said.ERROR


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


def test_waiting_is_limited_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times the CPU seconds of a check is the most that all its questions may wait together."""
    now, cpu = [100.0], [0.0]
    monkeypatch.setattr("grader.worker.allowance.time.monotonic", lambda: now[0])
    allowance = Allowance(lambda: cpu[0])
    allowance.limit(2)

    def question(seconds: float) -> None:
        allowance.asked()
        for _ in range(10):
            now[0] += seconds / 10
            cpu[0] += 0.001
            allowance.look()
        allowance.answered()

    for _ in range(19):
        question(1)
        now[0] += 100  # between two questions, the grader works
    with pytest.raises(LateError, match="more than 20 s"):
        question(1.2)
    allowance.limit(2)
    question(1)
    with pytest.raises(LateError, match="no use of the CPU, for 5 s"):
        allowance.asked()
        for _ in range(8):
            now[0] += 1
            allowance.look()
