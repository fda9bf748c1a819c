"""Whose CPU time a sample counts: that of a service that has ended stays the service's."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from boxes import sandbox

from grader.processes import Sampler, Supervisor
from grader.record import Record
from grader.sandbox import adopt_orphans
from grader.submission import Process, Submission
from grader.terms import Limits

EACH, TURNS = 0.1, 2
USES = f"""
import os, sys, time
def use():
    while time.process_time() < {EACH}:
        pass
if os.fork() == 0:
    use()
    os._exit(0)
os.wait()
use()
if sys.argv[1] == "crashes":
    sys.exit("used")
if os.fork() == 0:
    use()
    print("used", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("tier", [1, 3])
@pytest.mark.parametrize(("what", "processes"), [("killed", 3), ("crashes", 2)])
def test_the_time_of_a_service_that_ended_is_not_foreign(
    tier: int, what: str, processes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On an idle machine, no sample has foreign time, whether a service is killed or crashes repeatedly.

    The service, a child that it waited for and, if it is killed, a child that lives use the CPU. Each counts once.
    """
    adopt_orphans()
    box, record = sandbox(tier, tmp_path), Record()
    scout = SimpleNamespace(ports=lambda count: [1] * count, pid=os.getpid())
    monkeypatch.setattr("grader.processes.sampler.EVERY", 0.0)
    monkeypatch.setattr("grader.processes.sampler.busy", lambda: 1000.0)
    monkeypatch.setattr(
        "grader.processes.sampler.cpu", lambda pid, children: 0.0
    )  # of the generator and of this process
    monkeypatch.setattr("grader.sandbox.tree._RECENT", 0.0)
    team = Submission("team", tmp_path, {}, (Process("shop", "order", ("python3", "-c", USES, what)),))
    noted: list[str] = []

    def note(name: str, event: str, detail: str) -> None:
        noted.append(event)

    services = Supervisor(team, tmp_path, tmp_path, box, cast(Any, scout), Limits(restart=0), note)
    before = services.cpu()
    sampler = Sampler(record, 0, services.cpu, lambda: 0)
    try:
        services.start("shop")
        for turn in range(1, TURNS + 1):
            while services.logs.texts()["shop"].count("used") < turn:
                time.sleep(0.01)  # nothing announces that a thread has read the output
            sampler.tick()
            if what == "killed":
                services.kill("shop")
                sampler.tick()
                services.restart("shop")
            while what == "crashes" and noted.count("exited") < turn:
                time.sleep(0.01)  # the supervisor looks, as in a run
                services.tend_others("")
            sampler.tick()
        services.kill("shop")
        sampler.tick()
        assert record.samples["foreign"].max() < EACH / 2
        assert EACH * processes * TURNS * 0.9 < services.cpu() - before < EACH * processes * (TURNS + 1) * 1.5
    finally:
        services.close()
        box.close()
