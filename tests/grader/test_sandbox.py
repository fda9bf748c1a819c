"""What a submission's process can do in each tier, tried by such a process."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from boxes import said, started

from grader.errors import VoidError
from grader.sandbox import Plain, Sandbox, Tier, Walls, choose, landlock
from grader.sandbox.programs import settings
from grader.sandbox.tree import processes
from grader.wire.client import Generator
from grader.wire.jobs import Target

TRIES = r"""
import json, os, pathlib, socket, sys

def can(what):
    try:
        return bool(what())
    except OSError:
        return False

secret, data, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
environments = []
for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
    can(lambda: environments.append(path.read_bytes()))
def connect(kind, address):
    with socket.socket(socket.AF_INET, kind) as s:
        s.settimeout(1)
        s.connect(address)
        return s.send(b"x") == 1
def descriptors():
    return [fd for fd in range(3, 64) if can(lambda: os.fstat(fd) is not None)]
print(json.dumps({
    "reads": can(lambda: open(secret).read()),
    "lists": can(lambda: os.listdir("/var") or os.listdir("/work")),
    "environment": b"GRADERS_OWN=1" in b"".join(environments),
    "strangers": len([p for p in os.listdir("/proc") if p.isdigit()]) > 10,
    "tcp": can(lambda: connect(socket.SOCK_STREAM, ("127.0.0.1", port))),
    "udp": can(lambda: connect(socket.SOCK_DGRAM, ("192.0.2.1", 53))),
    "writes": os.access("/usr", os.W_OK) or os.access("/", os.W_OK),
    "data": can(lambda: open(data + "/there", "w")),
    "descriptors": len(descriptors()),
    "settings": sorted(str(path) for path in pathlib.Path("/etc").glob("*") if path.is_dir() and can(path.stat)),
}))
"""
DAEMON = r"""
import os, signal, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.alarm(600)  # not for ever, should the wall not hold
        print("away", flush=True)
        signal.pause()
    os._exit(0)
signal.pause()  # until it is killed
"""


@pytest.fixture
def walls(tmp_path: Path) -> Iterator[Walls]:
    """Tier 1; skips with the reason if this machine has none."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    tier, sandbox = choose(scratch, None)
    if not isinstance(sandbox, Walls):
        pytest.skip(f"{tier.why}; install bubblewrap and allow user namespaces, and this runs")
    yield sandbox
    sandbox.close()


def tried(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    secret = tmp_path / "secret"
    secret.write_text("hidden checks")
    monkeypatch.setenv("GRADERS_OWN", "1")
    # The environment that /proc shows is the one that a process was started with.
    witness = subprocess.Popen(["sleep", "60"])
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = str(server.getsockname()[1])
            words = (str(secret), str(tmp_path / "data"), port)
            status, text = said(sandbox, TRIES, words, tmp_path / "data")
            assert status == 0, text
            found: dict[str, object] = json.loads(text)
            return found
    finally:
        witness.kill()
        witness.wait()


def test_tier_1_stops_what_it_claims(walls: Walls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process reaches no file, environment, process, port or descriptor of the machine, and writes only to {data}.

    Of /etc it has the folders that programs of /usr need: Debian's Java does not start without its own.
    """
    assert tried(walls, tmp_path, monkeypatch) == {
        "reads": False, "lists": False, "environment": False, "strangers": False, "tcp": False, "udp": False,
        "writes": False, "data": True, "descriptors": 0, "settings": settings(),
    }  # fmt: skip


def test_the_same_attempts_succeed_without_walls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In tier 3, which claims to stop none, each attempt succeeds, so the test above can fail."""
    found = tried(Plain(), tmp_path, monkeypatch)
    assert found["reads"] and found["environment"] and found["strangers"] and found["tcp"] and found["data"]
    assert not any(stopped for _, stopped in Tier(3, "", "").table())


def alive(pids: set[int]) -> set[int]:
    """The processes that are alive after at most two seconds. This process does not adopt orphans, so it polls."""
    until = time.monotonic() + 2
    while True:
        everyone = processes()
        left = {pid for pid in pids if pid in everyone and everyone[pid][2] not in "ZX"}
        if not left or time.monotonic() > until:
            return left


def test_a_daemon_ends_with_its_service(walls: Walls, tmp_path: Path) -> None:
    """A daemon that forked twice, has its own session and ignores SIGTERM ends with its service."""
    process, tree, line = started(walls, ("python3", "-c", DAEMON), tmp_path / "data")
    pids = tree.pids()
    tree.kill()
    process.wait()
    assert line == "away\n" and len(pids) >= 2 and alive(pids) == set()


def test_services_reach_each_other_and_the_generator_reaches_them(walls: Walls, tmp_path: Path) -> None:
    """A run has one network namespace, which the generator enters. The machine's ports are not in it."""
    generator = Generator(walls.namespaces)
    try:
        (port,) = generator.ports(1)
        code = f"import socket; s = socket.create_server(('127.0.0.1', {port})); print(1, flush=True); s.accept()"
        process, tree, line = started(walls, ("python3", "-c", code), tmp_path / "data")
        assert line == "1\n" and generator.knock(Target("127.0.0.1", port))
        tree.kill()
        process.wait()
        with socket.create_server(("127.0.0.1", 0)) as outside:
            assert not generator.knock(Target("127.0.0.1", outside.getsockname()[1]))
    finally:
        generator.close()


def test_without_bubblewrap_the_tier_is_lower_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without bwrap the tier is 2 if the kernel has Landlock, otherwise 3, with the reason."""
    monkeypatch.setenv("PATH", str(tmp_path))
    tier, _ = choose(tmp_path, None)
    assert tier.number == (2 if landlock() else 3) and "bubblewrap" in tier.why
    monkeypatch.setattr("grader.sandbox.locked.landlock", lambda: 0)
    tier, sandbox = choose(tmp_path, None)
    assert type(sandbox) is Plain and tier.number == 3
    assert "bubblewrap" in tier.why and "Landlock" in tier.why and "not for grades" in tier.name
    with pytest.raises(VoidError, match="bwrap"):
        Walls(tmp_path, None)


def test_a_tier_that_does_not_run_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tier whose program exists but cannot start a process is refused, with the program's message."""
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/false")
    monkeypatch.setattr("grader.sandbox.command._ENTER", tmp_path / "not-there.py")
    tier, _ = choose(tmp_path, None)
    assert tier.number == 3 and "tier 1: " in tier.why
    assert "not-there.py" in tier.why or not landlock()
