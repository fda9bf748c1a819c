"""The grader judges a system through the proxy, with nothing held, as it judges it without."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import zoo
from test_zoo import BUDGET, Judged, judged
from zoo.trial import Trial

from grader import session
from grader.explore.proxies import Proxies
from grader.explore.through import reached, through
from grader.processes import Supervisor
from grader.record import load
from grader.sandbox import Plain, Sandbox, Tier
from grader.session import Wish, run
from grader.submission import Process, Submission, read_submission
from grader.submission.places import Places
from grader.table import JUDGED, TABLE
from grader.terms import Limits
from grader.verdict import judge
from grader.wire.client import Generator

__all__ = ["judged"]
PHASES = ("contract", "duplicates", "load")


def test_a_right_system_passes_through_the_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It passes each phase while all of its messages pass the proxy, in the tier without a network of its own."""
    seen: set[tuple[str, str]] = set()

    @contextlib.contextmanager
    def watched(
        submission: Submission, supervisor: Supervisor, sandbox: Sandbox, scout: Generator
    ) -> Iterator[Proxies]:
        with through(submission, supervisor, sandbox, scout) as proxies:
            proxies.pass_on()
            yield proxies
            while events := proxies.events(0.0):
                seen.update((event.sender, event.receiver) for event in events)

    monkeypatch.setattr(session, "choose", lambda *how: (Tier(3, "resource limits only", ""), Plain()))
    submission = read_submission(zoo.right("three", tmp_path / "three"))
    limits = Limits(budget=0.6 / min(TABLE[phase].share for phase in PHASES), stable=0.1, convergence=20.0, still=20.0)
    run(Wish(submission, PHASES, limits, 1, 0, "through", "quick"), tmp_path / "out", lambda said: None, watched)
    judgement = judge(load(tmp_path / "out"))
    assert (judgement.verdict, judgement.violations, judgement.why) == ("pass", (), "")
    assert [name for name, phase in judgement.phases.items() if phase.verdict == "pass"] == list(PHASES)
    ways = {("client", name) for name in ("order", "stock", "payment")} | {("order", "stock"), ("order", "payment")}
    assert seen == ways | {(callee, caller) for caller, callee in ways}


PROXIED = [
    pytest.param(replace(Trial(name, JUDGED, BUDGET, right.convergence), through=True), id=name)
    for name, right in (zoo.RIGHT | zoo.LABS).items()
]


@pytest.mark.slow
@pytest.mark.parametrize("trial", PROXIED)
def test_each_right_system_passes_every_phase_through_the_proxy(trial: Trial, judged: Judged) -> None:
    """The systems of the zoo and of labs/checkout have the verdicts that they have without the proxy."""
    result = judged(trial)
    assert not trial.wrong(result), (trial.wrong(result), result)
    assert {phase for phase, verdict in result["phases"].items() if verdict == "pass"} == set(JUDGED), result


def test_a_placeholder_leads_to_the_proxy_except_in_what_is_direct() -> None:
    """The port and the address of another process are those of the way to it; a process's own ones stay."""
    places = Places({"a": 1, "b": 2}, lambda name: name, "/code", ways={("a", "b"): ("127.88.0.1", 7)})
    text = "{port} {address} {port:b} {address:b}"
    assert places.fill(text, "a") == "1 127.0.0.1 7 127.88.0.1"
    assert places.direct.fill(text, "a") == "1 127.0.0.1 2 127.0.0.1"
    assert places.fill("{port:b}") == places.fill("{port:b}", "b") == "2"
    assert places.open_ports() == (1, 2, 7)


def test_who_reaches_whom_is_read_from_the_placeholders() -> None:
    """Those of commands, variables and routes count, and those of a process itself do not."""
    order = Process("order", "order", ("run", "{port}", "{port:stock}"), env={"DB": "{address:db}:{port:db}"})
    front = Process("front", "gateway", (), routes=(("/orders", "http://{address:order}:80"),))
    others = Process("stock", "stock", ("run", "{port:stock}")), Process("db", "database", ("run",))
    urls = {"order": "http://127.0.0.1:{port:front}"}
    assert reached(Submission("s", None, urls, (order, front, *others))) == {
        ("", "front"): False,
        ("order", "stock"): False,
        ("order", "db"): True,
        ("front", "order"): True,
    }
