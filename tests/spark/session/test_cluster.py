"""The standalone cluster of the kit: its command, its processes, and that nothing of it outlives what started it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from sparks import Start, processes

import sharedstate_lite.spark as kit
from sharedstate_lite.errors import Error

WAIT = 60
COMMAND = """
import runpy, sys
sys.argv = ["cluster", *{arguments!r}]
runpy.run_module("sharedstate_lite.spark.session.cluster", run_name="__main__")
"""


def command(start: Start, *arguments: str) -> subprocess.Popen[str]:
    """The command with these arguments."""
    return start(COMMAND.format(arguments=arguments))


def left(folder: Path) -> list[str]:
    """What is in the cache of tests, but for logs and shims."""
    return [path.name for path in (folder / "cache of tests" / "spark").glob("*")]


@pytest.mark.parametrize(
    "end", [signal.SIGKILL, *(pytest.param(s, marks=pytest.mark.slow) for s in (signal.SIGINT, signal.SIGTERM))]
)
def test_a_cluster_ends_with_what_started_it(start: Start, tmp_path: Path, end: signal.Signals) -> None:
    """Ctrl-C, SIGTERM and kill -9 end a master and two workers on the loopback device, and leave no process."""
    process = command(start, "start")
    assert process.stdout is not None
    url = process.stdout.readline()
    assert url.startswith("spark://127.0.0.1:") and url.endswith("(2 workers)\n")
    assert process.stdout.readline().startswith(f"export SHAREDSTATE_LITE_MASTER={url.split()[0]}")
    below = psutil.Process(process.pid).children(recursive=True)
    java = processes("org.apache.spark.deploy", below)
    assert len(java) == 3
    for each in java:
        for connection in each.net_connections(kind="inet"):
            assert connection.laddr.ip.removeprefix("::ffff:") in ("127.0.0.1", "::1")
    process.send_signal(end)
    out, err = process.communicate(timeout=WAIT)
    assert err == ""
    _, alive = psutil.wait_procs(below, timeout=WAIT)
    assert alive == []
    if end is not signal.SIGKILL:
        assert left(tmp_path) == [] and process.returncode == 128 + end


def test_a_command_runs_on_the_cluster(start: Start, tmp_path: Path) -> None:
    """run gives the command the master's address and returns its exit code; a command that is none is named."""
    script = "import os, sys; print(os.environ['SHAREDSTATE_LITE_MASTER']); sys.exit(7)"
    process = command(start, "--workers", "1", "run", sys.executable, "-c", script)
    out, err = process.communicate(timeout=WAIT)
    assert (process.returncode, err) == (7, "") and out.startswith("spark://127.0.0.1:")
    process = command(start, "--workers", "1", "run", "no-such-command")
    out, err = process.communicate(timeout=WAIT)
    assert process.returncode == 1 and err.startswith("cluster: no-such-command cannot be run (No such file")
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("wish", "named"),
    [({"workers": 0}, "workers=0"), ({"cores": True}, "cores=True"), ({"memory": "much"}, "memory='much'")],
)
def test_a_cluster_that_cannot_be_is_refused(wish: dict[str, object], named: str) -> None:
    """An argument that cannot be right is named, and nothing is started."""
    with pytest.raises(Error) as caught:
        kit.Cluster(**wish)  # type: ignore[arg-type]
    assert named in str(caught.value)


@pytest.mark.slow
def test_the_command_tries_a_job(start: Start, tmp_path: Path) -> None:
    """try runs one job on the cluster and in one process, says that the answers are equal, and leaves nothing."""
    process = command(start, "try")
    out, err = process.communicate(timeout=4 * WAIT)
    assert (process.returncode, err) == (0, "")
    assert out.count("equal to those in one process") == 3 and out.endswith("the view: equal\n")
    assert left(tmp_path) == []
