"""The standalone cluster: its command, its processes, and that they end with the process that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from sparks import Start, processes

import sharedstate_lite.spark as kit
from sharedstate_lite.errors import Error
from sharedstate_lite.spark.session import cluster, guard

WAIT = 120
COMMAND = """
import runpy, sys
sys.argv = ["cluster", *{arguments!r}]
runpy.run_module("sharedstate_lite.spark.session.cluster", run_name="__main__")
"""


def command(start: Start, *arguments: str) -> subprocess.Popen[str]:
    """The command with these arguments."""
    return start(COMMAND.format(arguments=arguments))


def left(folder: Path) -> list[str]:
    """The folders of sessions and clusters in the cache of tests."""
    return [path.name for path in (folder / "cache of tests" / "spark").glob("*")]


def test_a_command_runs_on_the_cluster(start: Start, tmp_path: Path) -> None:
    """run gives the command the master's address and returns its exit code. All processes listen on loopback only."""
    go = tmp_path / "go"
    os.mkfifo(go)
    script = "import os, sys; print(os.environ['SHAREDSTATE_LITE_MASTER'], flush=True); "
    script += f"open({str(go)!r}).read(); sys.exit(7)"
    process = command(start, "--workers", "1", "run", sys.executable, "-c", script)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("spark://127.0.0.1:")
    below = psutil.Process(process.pid).children(recursive=True)
    java = processes("java -cp", below)
    assert len(java) == 2
    for each in java:
        for connection in each.net_connections(kind="inet"):
            assert connection.laddr.ip.removeprefix("::ffff:") in ("127.0.0.1", "::1")
    go.write_text("")
    out, err = process.communicate(timeout=WAIT)
    assert (process.returncode, out, err) == (7, "", "")
    assert psutil.wait_procs(below, timeout=WAIT)[1] == [] and left(tmp_path) == []


def test_an_unknown_program_starts_no_cluster() -> None:
    """A command that cannot run is refused before anything starts."""
    with pytest.raises(Error, match="no-such-command cannot be run: no such program"):
        cluster.main(["run", "no-such-command"])


OWNER = """
import subprocess, sys
child = "import os, signal; print(os.getpid(), flush=True); signal.pause()"
guard = subprocess.Popen(
    [sys.executable, "-I", {guard!r}, sys.executable, "-c", child],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
)
print(guard.pid, guard.stdout.readline().strip(), flush=True)
sys.stdin.readline()
"""


def test_the_guard_ends_its_command_when_its_owner_is_killed(tmp_path: Path) -> None:
    """After kill -9 of the owner, the guard and its command end."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER.format(guard=guard.__file__)],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        below = [psutil.Process(int(pid)) for pid in owner.stdout.readline().split()]
        assert len(below) == 2
        owner.kill()
    assert psutil.wait_procs(below, timeout=WAIT)[1] == []


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_cluster_ends_with_what_started_it(start: Start, tmp_path: Path, end: signal.Signals) -> None:
    """Ctrl-C, SIGTERM and kill -9 end a master and two workers, and leave no process."""
    process = command(start, "start")
    assert process.stdout is not None
    url = process.stdout.readline()
    assert url.startswith("spark://127.0.0.1:") and url.endswith("(2 workers)\n")
    assert process.stdout.readline().startswith(f"export SHAREDSTATE_LITE_MASTER={url.split()[0]}")
    below = psutil.Process(process.pid).children(recursive=True)
    assert len(processes("java -cp", below)) == 3
    process.send_signal(end)
    out, err = process.communicate(timeout=WAIT)
    assert err == ""
    assert psutil.wait_procs(below, timeout=WAIT)[1] == []
    if end is not signal.SIGKILL:
        assert left(tmp_path) == [] and process.returncode == 128 + end


@pytest.mark.parametrize(
    ("wish", "named"),
    [({"workers": 0}, "workers=0"), ({"cores": True}, "cores=True"), ({"memory": "much"}, "memory='much'")],
)
def test_a_cluster_that_cannot_be_is_refused(wish: dict[str, object], named: str) -> None:
    """A wrong argument is named, and nothing starts."""
    with pytest.raises(Error) as caught:
        kit.Cluster(**wish)  # type: ignore[arg-type]
    assert named in str(caught.value)


@pytest.mark.slow
def test_the_command_tries_a_job(start: Start, tmp_path: Path) -> None:
    """try runs one job on the cluster and in one process, reports equal answers, and leaves no file."""
    process = command(start, "try")
    out, err = process.communicate(timeout=4 * WAIT)
    assert (process.returncode, err) == (0, "")
    assert out.count("equal to those in one process") == 3 and out.endswith("the view: equal\n")
    assert left(tmp_path) == []
