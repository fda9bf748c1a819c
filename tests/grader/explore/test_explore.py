"""`explore` finds the run that breaks the system to start from, and nothing in a right one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grader import __main__ as grader
from grader import session
from grader.errors import UsageError, VoidError
from grader.explore import command, explorer
from grader.explore.cases import LATE, LOSE, SCENARIOS, Case, cases
from grader.explore.connection import Event
from grader.explore.cutter import ANSWER, BURST, REQUEST
from grader.explore.explorer import Explorer
from grader.explore.steps import steps, word
from grader.explore.system import PHASE, Run
from grader.record import Notes, Record
from grader.sandbox import Plain, Tier
from grader.sandbox.tree import descendants, processes
from grader.verdict import Violation

ROOT = Path(__file__).resolve().parents[3]
ASK, TAKE = Event("", "client", "order"), Event("", "order", "stock", kind=REQUEST)
TAKEN = Event("", "stock", "order", kind=ANSWER)
PLAIN = [
    (ASK._replace(kind=REQUEST), "client->order POST /checkout/O"),
    (TAKE, "order->stock POST /take/X/2"),
    (TAKEN, "stock->order 200"),
    (TAKE, "order->stock POST /take/X/2"),
    (TAKEN, "stock->order 200"),
    (Event("", "order", "db", kind=BURST), "order->db ..."),
    (ASK._replace(sender="order", receiver="client", kind=ANSWER), "order->client 200"),
]
FOUND = list(cases([(SCENARIOS[0], PLAIN)]))


def lab(name: str, folder: Path) -> Path:
    """A copy of a system of labs/checkout that finds its gunicorn in every environment."""
    copy = folder / name
    for path in sorted((ROOT / "labs" / "checkout" / name).rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            target = copy / path.relative_to(ROOT / "labs" / "checkout" / name)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(path.read_text().replace('"gunicorn",', '"python3", "-m", "gunicorn",'))
    return copy


@pytest.fixture
def explore(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., int]:
    """Run the command in the tier that every machine has. Nothing may be left of it."""
    monkeypatch.setattr(session, "choose", lambda *how: (Tier(3, "resource limits only", ""), Plain()))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> int:
        before = descendants([os.getpid()], processes())
        status = grader.main(["explore", *words])
        assert descendants([os.getpid()], processes()) <= before
        assert not list(tmp_path.glob("checkout-explore-*"))
        return status

    return run


def test_the_shortest_wrong_run_of_start_has_five_steps(
    explore: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A request arrives after its caller has given up; the run repeats on a fresh start, and can be run again alone."""
    folder = str(lab("start", tmp_path))
    assert explore(folder, "--first", "--convergence", "1") == 1
    said = capsys.readouterr().out
    assert re.findall(r"^   (\d)  (.*)$", said, re.M) == [
        ("1", "client -> order   POST /checkout/O"),
        ("2", "the connection order -> stock breaks: POST /subtract/X/2 has not arrived"),
        ("3", "order -> client   503"),
        ("4", "the request of step 2 arrives, late"),
        ("5", "stock answers 200, but its caller is gone"),
    ]
    assert "L2: payable, late order->stock POST /subtract/X/2, 1st" in said
    assert "O not paid, credit of U 100, stock of X 18 (should be 20), stock of Y 20\n" in said
    assert "explored 2 of 33 (lose 2 of 33)" in said and f"explore {folder} --case L2" in said


@pytest.mark.parametrize(
    "minutes", ["0.05", pytest.param("10", marks=pytest.mark.slow)], ids=["some cases", "all cases"]
)
def test_nothing_is_found_in_a_saga(
    minutes: str, explore: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each step of a saga can be repeated and undone, whatever is lost or late."""
    assert explore(str(lab("saga", tmp_path)), "--only", "lose", "--minutes", minutes) == 0
    (ran, possible) = re.findall(r"^explored (\d+) of (\d+) ", capsys.readouterr().out, re.M)[0]
    assert possible == "27" and 1 <= int(ran) and (minutes != "10" or ran == "27")


def test_a_case_is_a_message_between_processes_and_what_happens_to_it() -> None:
    """A request is lost or late, an answer and a burst are lost, and the client's messages are left alone."""
    assert {case.id: str(case) for case in FOUND} == {
        "L1": "payable, lose order->stock POST /take/X/2, 1st",
        "L2": "payable, late order->stock POST /take/X/2, 1st",
        "L3": "payable, lose stock->order 200, 1st",
        "L4": "payable, lose order->stock POST /take/X/2, 2nd",
        "L5": "payable, late order->stock POST /take/X/2, 2nd",
        "L6": "payable, lose stock->order 200, 2nd",
        "L7": "payable, lose order->db ..., 1st",
    }
    assert [case.nth for case in FOUND] == [2, 2, 3, 4, 4, 5, 6]


def test_each_case_is_allowed_by_a_sentence_of_the_assignment() -> None:
    """The words that the report quotes stand in the section that it names."""
    page, _, title = explorer.PAGE.partition(", ")
    _, _, section = (ROOT / page).read_text().partition(f"## {title}")
    section = " ".join(section.partition("\n## ")[0].split())
    assert {case.allowed for case in FOUND} == {
        "may not have arrived",
        "may arrive up to 10 s later",
        "its answer may be lost",
        "can break",
    }
    assert all(case.allowed in section for case in FOUND)


def test_ids_have_names_and_what_a_system_makes_up_has_none() -> None:
    """Short ids are whole words, long ones are found in longer words, and numbers of a transaction differ each time."""
    names = {"7": "X", "0123456789abcdef": "U", "a b/c": "O"}
    for path, said in {
        "/take/7/77": "/take/X/77",
        "/pay/tx-0123456789abcdef-1/2": "/pay/tx-U-1/2",
        "/pay/5f2b9c3de1/12345": "/pay/#/#",
        "/checkout/a%20b%2Fc": "/checkout/O",
        "/find?user=7": "/find?user=X",
    }.items():
        assert word(Event("arrived", kind=REQUEST, first=f"GET {path} HTTP/1.1"), names) == f"GET {said}"


def test_the_steps_of_a_run_are_what_has_happened() -> None:
    """Messages that are delivered or lost are steps; that they have arrived at the proxy, and connections, are none."""
    asked = TAKE._replace(connection=1, message=1, first="POST /take/7/2 HTTP/1.1")
    said = TAKEN._replace(connection=2, message=3, first="HTTP/1.1 200 OK")
    run = [
        asked._replace(what="opened"),
        asked._replace(what="arrived"),
        asked._replace(what="kept"),
        said._replace(what="arrived"),
        said._replace(what="overdue"),
        asked._replace(what="late"),
        said._replace(what="dropped", connection=1),
        said._replace(what="dropped", connection=3),
        asked._replace(what="dropped", message=5),
    ]
    assert steps(run, {"7": "X"}) == [
        "the connection order -> stock breaks: POST /take/X/2 has not arrived",
        "stock -> order   200 (held for too long)",
        "the request of step 1 arrives, late",
        "stock answers 200, but its caller is gone",
        "the connection order -> stock breaks: the answer 200 is lost",
        "the connection order -> stock breaks: POST /take/X/2 has not arrived",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("missing", "missing is not a folder; explore takes a folder with checkout.toml"),
        ("empty", "checkout.toml"),
        ("empty --only race", "--only: no such kind: 'race'; choose from lose"),
        ("empty --minutes 0", "--minutes: '0' is not a number above 0 and below 1,000,000"),
    ],
)
def test_a_command_line_that_means_nothing_is_refused(
    words: str, said: str, explore: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit status 64 and one sentence."""
    (tmp_path / "empty").mkdir()
    assert explore(*words.split()) == 64
    assert said in capsys.readouterr().err


class Scripted(Explorer):
    """An explorer whose system is right, and has the cases above."""

    def plain(self) -> list[Case]:
        """Return the cases."""
        return FOUND


def test_an_unknown_case_is_refused_with_the_ids_that_exist(tmp_path: Path) -> None:
    """The sentence names the first and the last one."""
    wish = session.Wish(session.Submission("s", None, {}), (), session.Limits(), 0, 0, "", "")
    with Scripted(wish, "s") as scripted, pytest.raises(UsageError, match="'L9': there is no such case; .* L1 to L7"):
        command._run(scripted, "L9", [LOSE], False, 1.0, "s")


class Slow:
    """A system whose values are right 9 s after a fault. ``given``: the seconds that its runs had."""

    def __init__(self) -> None:
        self.given: list[float] = []

    def run(self, case: Case, seconds: float, still: float) -> Run:
        """Run a case."""
        self.given.append(seconds)
        record = Record(phases={PHASE: Notes(settled_s=9.0 if seconds > 9.0 else None)})
        late = Violation("", "", (), "taken_times", PHASE, "taken, and not paid")
        return Run(case, record, {}, PLAIN, [], 503, 0, 0, () if seconds > 9.0 else (late,))


def test_a_system_that_needs_long_gets_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A suspect that is right in the end is no violation, and later runs have half as much time again."""
    slow: Any = Slow()
    wish = session.Wish(session.Submission("s", None, {}), (), session.Limits(), 0, 0, "", "")
    monkeypatch.setattr(explorer, "wrong", lambda run: ["stock of X is 18, should be 20"])
    with Explorer(wish, "s") as patient:
        monkeypatch.setattr(patient, "start", lambda: slow)
        for case in FOUND[:2]:
            run = patient.run(case)
            assert run is not None and bool(run.violations) is (case is FOUND[0])
            assert not run.violations or not patient.suspect(run)
        assert (patient.unrepeated, patient.found, slow.given) == (["L1"], {}, [2.0, 60.0, 13.5])
        assert "wrong once and right on a fresh start, so not counted: L1" in patient.ending("s")


def plain_run(status: int, restless: int, scenario: int = 0) -> Run:
    """A plain run without violations."""
    return Run(Case(SCENARIOS[scenario]), Record(), {}, PLAIN, [], status, 0, restless)


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (plain_run(200, 7), "a process of the system works all the time, so the grader cannot tell when a message"),
        (plain_run(503, 0), r"a checkout without a fault \(payable\) got 503, should be 2xx; mend this first"),
        (plain_run(200, 0, 1), r"a checkout without a fault \(no credit\) got 200, should be 4xx; mend this first"),
    ],
)
def test_a_system_that_cannot_be_explored_is_void(run: Run, said: str) -> None:
    """One that is never quiet, or whose plain checkouts are answered wrongly, in one sentence."""
    with pytest.raises(VoidError, match=said):
        explorer._check(run)


def test_a_case_has_happened_if_the_messages_before_it_were_the_same() -> None:
    """A run with other messages is run again."""
    case = Case(SCENARIOS[0], LATE, 2, tuple(said for _, said in PLAIN[:2]))
    run = Run(case, Record(), {}, PLAIN, [], 200, 0, 0)
    assert run.reached
    run.messages = PLAIN[1:]
    assert not run.reached


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_of_an_exploration_that_is_stopped(number: int, tmp_path: Path) -> None:
    """Its processes end, its folder is removed, and it exits with 130."""
    words = [sys.executable, "-m", "grader", "explore", str(lab("saga", tmp_path))]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and "the same each time" in process.stdout.readline()
        started = descendants([process.pid], processes())
        assert len(started) > 3
        process.send_signal(number)
        assert process.wait(60.0) == 130
    assert not started & processes().keys()
    assert not list(tmp_path.glob("checkout-explore-*"))
