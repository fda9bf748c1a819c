"""`explore` finds the run that breaks the system to start from, and nothing in a right one."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
from systems import plant

from grader import __main__ as grader
from grader import session
from grader.errors import UsageError, VoidError
from grader.explore import command, explorer, play, shown
from grader.explore.cases import (
    KILL,
    LOSE,
    RACE,
    RACES,
    SCENARIOS,
    WRITE,
    Case,
    Fault,
    Swap,
    common,
    kills,
    losses,
    second,
    swapped,
)
from grader.explore.connection import Event
from grader.explore.cutter import ANSWER, BURST, REQUEST
from grader.explore.explorer import Explorer
from grader.explore.steps import KILLED, STARTED, UP, steps, word
from grader.explore.writes import TraceError
from grader.sandbox import Plain, Tier
from grader.sandbox.tree import descendants, processes
from grader.submission import Submission
from grader.terms import Limits
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
FOUND = list(losses([(SCENARIOS[0], PLAIN)]))


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
    assert explore(folder, "--first", "--convergence", "1", "--report", str(tmp_path / "report")) == 1
    same_as_stored(reported(tmp_path / "report")["cases"][0])
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
    assert re.search(r"^explored 2 of \d+ \(lose 2 of \d+, ", said, re.M)
    assert "--case 'payable, late order->stock POST /subtract/X/2, 1st'" in said
    assert f"  report: {tmp_path / 'report' / 'explore.html'}" in said


def test_a_case_has_the_same_steps_and_values_each_time(
    explore: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A case is run alone, by a text that ends earlier. Without --report, its page is in a new folder of reports/.

    Its steps are printed at once. When it is confirmed, one line says in how many runs it was wrong.
    """
    chosen = ("--case", "payable, late order->stock POST /subtract, 1st")
    assert explore(str(lab("start", tmp_path)), "--convergence", "1", *chosen) == 1
    first, _, then = capsys.readouterr().out.partition("Being confirmed")
    assert [text.count("the request of step 2 arrives, late") for text in (first, then)] == [1, 0]
    assert "FAIL  stock of X is 18, should be 20 (wrong in 3 of 3 runs, once on a fresh start)\n" in then
    (folder,) = (tmp_path / "reports").iterdir()
    told = reported(folder)
    same_as_stored(told["cases"][0])
    assert told["kinds"] == []


STORED = Path(__file__).resolve().parent / "stored" / "late.json"


def same_as_stored(case: dict[str, Any]) -> None:
    """A case has the steps that are stored, and what was read after each of them is the same."""
    known = json.loads(STORED.read_text("utf-8"))["cases"][0]
    for step, other in zip(case["steps"], known["steps"], strict=True):
        assert {**step, "values": None} == {**other, "values": None}
        read = {thing: value for thing, value in (step["values"] or {}).items() if value is not None}
        assert read == {thing: other["values"][thing] for thing in read}
    assert case["values"] == known["values"] and case["left_out"] == ""


def reported(folder: Path) -> Any:
    """The content of explore.json, which fits its schema; its page is beside it."""
    told = json.loads((folder / "explore.json").read_text("utf-8"))
    schema = json.loads((ROOT / "docs" / "explore.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(told)
    assert {path.name for path in folder.iterdir()} == {"explore.json", "explore.html"}
    return told


@pytest.mark.parametrize(
    "minutes", ["0.05", pytest.param("10", marks=pytest.mark.slow)], ids=["some cases", "all cases"]
)
def test_nothing_is_found_in_a_saga(
    minutes: str, explore: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each step of a saga can be repeated and undone, whatever is lost or late."""
    report = tmp_path / "report"
    assert explore(str(lab("saga", tmp_path)), "--only", "lose", "--minutes", minutes, "--report", str(report)) == 0
    told = reported(report)
    assert told["cases"] == [] and told["not_explored"] == ["race", "kill", "twice", "kills at writes"]
    (ran, possible) = re.findall(r"^explored (\d+) of (\d+) ", capsys.readouterr().out, re.M)[0]
    assert possible == "54" and 1 <= int(ran) and (minutes != "10" or ran == "54")


def test_a_case_is_a_message_between_processes_and_what_happens_to_it() -> None:
    """A request is lost or late, an answer and a burst are lost, and the client's messages are left alone.

    Those after which a caller waits come last.
    """
    assert {case.id: str(case) for case in FOUND} == {
        "L1": "payable, lose order->stock POST /take/X/2, 1st",
        "L2": "payable, late order->stock POST /take/X/2, 1st",
        "L3": "payable, lose stock->order 200, 1st",
        "L4": "payable, lose order->stock POST /take/X/2, 2nd",
        "L5": "payable, late order->stock POST /take/X/2, 2nd",
        "L6": "payable, lose stock->order 200, 2nd",
        "L7": "payable, lose order->db ..., 1st",
        "L8": "payable, silence order->stock POST /take/X/2, 1st",
        "L9": "payable, late after silence order->stock POST /take/X/2, 1st",
        "L10": "payable, silence stock->order 200, 1st",
        "L11": "payable, silence order->stock POST /take/X/2, 2nd",
        "L12": "payable, late after silence order->stock POST /take/X/2, 2nd",
        "L13": "payable, silence stock->order 200, 2nd",
    }
    assert {case.kind for case in FOUND} == {LOSE}


def test_kills_begin_with_one_process_near_the_beginning() -> None:
    """At each message but the first: each process, and its sender after it has arrived; all together come last.

    What came before a message in an earlier scenario, too, is left out.
    """
    found = list(kills([(SCENARIOS[0], PLAIN[:3]), (SCENARIOS[1], PLAIN[:4])], ["stock", "order"]))
    assert [str(case) for case in found] == [
        "payable, kill stock at order->stock POST /take/X/2, 1st",
        "payable, kill order at order->stock POST /take/X/2, 1st",
        "payable, kill order after order->stock POST /take/X/2, 1st",
        "payable, kill stock at stock->order 200, 1st",
        "payable, kill stock after stock->order 200, 1st",
        "payable, kill order at stock->order 200, 1st",
        "no credit, kill stock at order->stock POST /take/X/2, 2nd",
        "no credit, kill order at order->stock POST /take/X/2, 2nd",
        "no credit, kill order after order->stock POST /take/X/2, 2nd",
        "payable, kill stock+order at order->stock POST /take/X/2, 1st",
        "payable, kill stock+order at stock->order 200, 1st",
        "no credit, kill stock+order at order->stock POST /take/X/2, 2nd",
    ]
    assert [case.id for case in found] == [f"K{number}" for number in range(1, 13)]
    assert {case.allowed for case in found} == {("can be killed",)}


def test_a_second_fault_is_at_a_message_after_the_first_one() -> None:
    """After a loss another message is lost; after a kill its receiver may be killed."""
    said = PLAIN[3:5]
    for first, faults in (
        (FOUND[2], ["lose order->stock POST /take/X/2, 2nd", "lose stock->order 200, 2nd", "lose order->db ..., 1st"]),
        (
            Case(SCENARIOS[0], (Fault(KILL, "stock->order 200", 2, victims=("stock",)),)),
            ["lose order->db ..., 1st"],
        ),
        (
            Case(SCENARIOS[0], (Fault(KILL, said[0][1], 2, victims=("stock",)),)),
            ["lose stock->order 200, 2nd", "kill order at stock->order 200, 2nd", "lose order->db ..., 1st"],
        ),
    ):
        assert [str(fault) for fault in second(first, PLAIN, ("stock", "order"))] == faults


def test_messages_that_some_runs_do_not_have_are_no_cases() -> None:
    """A message is known by its words and by which of them it is, so others may come between."""
    extra = (TAKEN, "stock->order 404")
    assert common([PLAIN, [*PLAIN[:2], extra, *PLAIN[2:]], [*PLAIN[:3], *PLAIN[5:]]]) == [*PLAIN[:3], *PLAIN[5:]]
    assert common([PLAIN]) == PLAIN


def test_one_swap_delivers_a_message_before_one_of_the_same_receiver() -> None:
    """What no message of its receiver comes before is left out: the receiver would not see a difference."""
    a, b, c = (Event("arrived", "order", name, message=n) for n, name in enumerate(("stock", "payment", "stock"), 1))
    said = {1: "take", 2: "pay", 3: "give back"}
    case = Case(RACES[0], id="R1")
    held = [[a, b, c], [b, c], [c]]
    found = list(swapped(case, [a, b, c], held, lambda event: said[event.message]))
    assert found == [Swap(1, "give back", 1)]
    assert str(Case(RACES[0], (), tuple(found))) == "the same order twice, at step 1 deliver give back, 1st"


def test_races_take_turns_and_swaps_in_the_middle_come_first(exploring: Callable[[Fake], Explorer]) -> None:
    """A request is let in where another one has done half of its work, then where it has done a quarter."""
    made: Any = exploring(Fake())
    followed = {"R1": [1, 2, 3, 4, 5, 6, 7], "R2": [1, 2]}

    def following(run: Any) -> Iterator[Case]:
        for step in followed.get(run.case.id, []):
            yield replace(run.case, swaps=(Swap(step, "client->order POST /checkout/P"),), id=f"{run.case.id}.{step}")

    made._following = following
    races = made._races()
    for race in (next(races), next(races)):
        made._right[RACE].append(SimpleNamespace(case=race, messages=[], statuses=()))
    assert [case.id for case in islice(races, 3, 12)] == [
        "R1.4", "R2.2", "R1.2", "R2.1", "R1.6", "R1.1", "R1.3", "R1.5", "R1.7",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("chosen", "meant"),
    [
        ("L5", "L5"),
        ("payable, late order->stock POST /take/X/2, 2nd", "L5"),
        ("L5: payable, late order->stock POST /take, 2nd", "L5"),
        ("payable,  late order->stock POST /take, 1st", "L2"),
        ("payable, late order->stock POST /ta, 1st", None),
        ("payable, late order->stock, 1st", None),
        ("no credit, late order->stock POST /take/X/2, 1st", None),
    ],
)
def test_a_case_is_meant_by_its_id_or_by_its_text(chosen: str, meant: str | None) -> None:
    """The text can begin with the id, and its path can end earlier, at a slash."""
    assert next((case.id for case in FOUND if case.meant(chosen)), None) == meant


def test_each_case_is_allowed_by_a_sentence_of_the_assignment() -> None:
    """The words that the report quotes stand in the section that it names."""
    page, _, title = shown.PAGE.partition(", ")
    _, _, section = (ROOT / page).read_text().partition(f"## {title}")
    section = " ".join(section.partition("\n## ")[0].split())
    race = Case(RACES[0], swaps=(Swap(2, "order->stock POST /take/X/2"),))
    killed = Case(SCENARIOS[0], (Fault(KILL, "order->stock POST /take/X/2", victims=("stock",)),))
    said = {words for case in (*FOUND, race, killed) for words in case.allowed}
    assert said == {
        "at the same time",
        "may not have arrived",
        "may arrive up to 10 s later",
        "its answer may be lost",
        "nothing until it stops waiting",
        "can break",
        "can be killed",
        "can be delayed",
    }
    assert all(words in section for words in said)


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


def test_an_answer_has_the_step_of_its_request_if_two_are_open() -> None:
    """Two requests between the same processes: the first answer says which one it answers, the last one need not."""
    first = Event("delivered", "client", "order", 1, 1, REQUEST, "POST /checkout/7 HTTP/1.1")
    other = first._replace(connection=2, message=2)
    answer = Event("delivered", "order", "client", 2, 3, ANSWER, "HTTP/1.1 200 OK")
    assert steps([first, other, answer, answer._replace(connection=1, message=4)], {"7": "O"}) == [
        "client -> order   POST /checkout/O",
        "client -> order   POST /checkout/O",
        "order -> client   200 (answers step 2)",
        "order -> client   200",
    ]


def test_the_steps_of_a_kill_and_of_a_silence() -> None:
    """A kill is one step, with what its victim has sent; so is the end of a restart, and that a caller gives up."""
    asked = TAKE._replace(connection=1, message=1, first="POST /take/7/2 HTTP/1.1")
    run = [
        asked._replace(what="struck"),
        Event("kill"),
        Event(KILLED, "order"),
        Event(KILLED, "stock"),
        *(Event(what, name) for name in ("order", "stock") for what in (STARTED, UP)),
        asked._replace(what="silent"),
        asked._replace(what="dropped"),
        asked._replace(what="gone"),
        *[asked._replace(what="delivered", kind=BURST)] * 3,
        Event("kill"),
        Event(KILLED, "stock"),
    ]
    assert steps(run, {"7": "X"}) == [
        "kill order and stock, which has sent POST /take/X/2",
        "order and stock are started again",
        "nothing more passes order -> stock: POST /take/X/2 has not arrived",
        "order has given up waiting for stock",
        "order -> stock   ... (3 times)",
        "kill stock",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("missing", "missing is not a folder; explore takes a folder with checkout.toml"),
        ("empty", "checkout.toml"),
        ("empty --only loss", "--only: no such kind: 'loss'; choose from lose,race,kill,twice,write"),
        ("empty --slow", "--slow needs --case, which says what to run"),
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


ANSWER_IT = "        raw = json.dumps(body).encode()\n"
TO_CHECKOUTS = (
    "        if words[1] == 'checkout':\n            {}\n            self.close_connection = True\n            return\n"
)
BUSY = "    __import__('threading').Thread(target=exec, args=('while True: pass',), daemon=True).start()\n"
BAD = {
    "an unknown case": ("", "", 64, "--case 'L1': this system has no such case; explore it without --case to see some"),
    "a port that is taken": ("", "", 2, "another program on this machine uses port {port}; remove port from checkout"),
    "never quiet": (
        "    server.serve_forever()\n",
        f"{BUSY}    server.serve_forever()\n",
        2,
        "a process of the system works all the time, so the grader cannot tell when a message has had its effect",
    ),
    "no HTTP": (
        ANSWER_IT,
        TO_CHECKOUTS.format("self.wfile.write(bytes(1000))") + ANSWER_IT,
        2,
        "a checkout without a fault (payable) got an answer that is not HTTP, should be 2xx; mend this first",
    ),
    "an answer without end": (
        ANSWER_IT,
        TO_CHECKOUTS.format("while True: self.wfile.write(bytes(1000))") + ANSWER_IT,
        2,
        "a checkout without a fault (payable) got an answer that is not HTTP, should be 2xx; mend this first",
    ),
    "no answer": (
        ANSWER_IT,
        TO_CHECKOUTS.format("__import__('time').sleep(600)") + ANSWER_IT,
        2,
        "a checkout without a fault (payable) got no answer within the timeout, should be 2xx; mend this first",
    ),
    "an exit": (
        ANSWER_IT,
        TO_CHECKOUTS.format("__import__('os')._exit(1)") + ANSWER_IT,
        2,
        "a checkout without a fault (payable) cannot be judged: shop has exited, and the explorer did not cause it",
    ),
}
"""What is wrong: a change of the system's HTTP code, the exit status, and what is said."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name != "an unknown case")) for name in BAD]
)
def test_what_cannot_be_explored_is_one_sentence(
    name: str, explore: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On standard error, with its exit status; nothing of it is left."""
    right, wrong, status, said = BAD[name]
    web, toml = plant("single", tmp_path / "system") / "web.py", tmp_path / "system" / "checkout.toml"
    assert right in web.read_text()
    web.write_text(web.read_text().replace(right, wrong) if right else web.read_text())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        if "port" in name:
            toml.write_text(toml.read_text().replace('role = "order"', f'role = "order"\nport = {port}'))
        assert explore(str(web.parent), "--case", "L1") == status
    lines = capsys.readouterr().err.splitlines()
    assert said.format(port=port) in lines[-1], lines


class Fake:
    """A system whose runs are given: for each one, whether it is wrong, and whether it is after it was waited for."""

    def __init__(self, *runs: tuple[bool, bool], reached: bool = True, void: str = "") -> None:
        self.runs, self.reached, self.void = list(runs), reached, void
        self.asked: list[tuple[str, float]] = []
        self.judged: list[float] = []
        self.looks = [(False, True)] * 3
        """What is seen of the values: whether they are right, and whether they may change."""

    def run(self, case: Case, seconds: float, still: float, flowing: bool = False) -> Any:
        """Run a case."""
        self.asked.append((str(case), seconds))
        wrong, self.later = self.runs.pop(0)
        return SimpleNamespace(
            case=case, violations=LATE * wrong, events=[], void=self.void, reached=self.reached, failed="",
            messages=PLAIN, later=self.later, words=(), statuses=(200,), restless=0,
        )  # fmt: skip

    def look(self, run: Any) -> tuple[bool, bool]:
        """Read the values of a run."""
        return self.looks.pop(0)

    def judge(self, run: Any, seconds: float, still: float) -> None:
        """Wait."""
        self.judged.append(seconds)
        run.violations = LATE * run.later


LATE = (Violation("", "", (), "taken_times", "explore", "taken, and not paid"),)


@pytest.fixture
def exploring(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Fake], Explorer]]:
    """An explorer of a given system."""
    monkeypatch.setattr(
        explorer, "shown", lambda run, times=(1, 1): SimpleNamespace(wrong=["wrong"], times=times, case="c")
    )
    monkeypatch.setattr(explorer, "text", lambda told: f"FAIL in {told.times[0]} of {told.times[1]}")
    wish = session.Wish(Submission("s", None, {}), (), Limits(), 0, 0, "", "")
    with Explorer(wish, "s") as made:
        made._plain = [(Case(SCENARIOS[0]), PLAIN)]

        def given(system: Any) -> Explorer:
            def start() -> Any:
                made._system = system
                return system

            monkeypatch.setattr(made, "start", start)
            return made

        yield given


def test_an_unknown_case_is_refused(exploring: Callable[[Fake], Explorer]) -> None:
    """In a sentence that says what to do. An id that exists is found."""
    made = exploring(Fake())
    with pytest.raises(UsageError, match="'L99': this system has no such case; explore it without --case to see some"):
        command._one(made, "L99", slow=False)
    assert [str(made.find(name)) for name in ("L1", "R1")] == [
        "payable, lose order->stock POST /take/X/2, 1st",
        "the same order twice",
    ]


@pytest.mark.parametrize(
    "chosen", ["L1.2", "payable, lose order->stock POST /take/X/2, 1st, lose order->stock POST /take/X/2, 2nd"]
)
def test_a_case_that_follows_another_one_is_found(chosen: str, exploring: Callable[[Fake], Explorer]) -> None:
    """By running that one, because the messages after the first fault are known only then."""
    case = exploring(Fake((False, False))).find(chosen)
    assert case is not None
    assert (case.id, str(case.faults[1])) == ("L1.2", "lose order->stock POST /take/X/2, 2nd")


def test_a_case_that_follows_another_one_is_looked_for_in_three_runs(exploring: Callable[[Fake], Explorer]) -> None:
    """What a system sends by itself after a fault comes too late in some runs."""
    system: Any = Fake(*[(False, False)] * 3)
    made, run = exploring(system), system.run
    system.run = lambda *how, **more: SimpleNamespace(
        **{**vars(run(*how, **more)), "messages": PLAIN if len(system.asked) == 3 else PLAIN[:2]}
    )
    case = made.find("L1.2")
    assert case is not None and len(system.asked) == 3


def test_a_suspect_is_run_twice_more_and_both_have_time(
    exploring: Callable[[Fake], Explorer], capsys: pytest.CaptureFixture[str]
) -> None:
    """It counts if it is wrong in both, after the time in which effects complete. Nothing is run meanwhile."""
    system = Fake((True, True), (True, True), (True, True))
    made = exploring(system)
    run = made.run(FOUND[0])
    assert run is not None and made.suspect(run)
    assert "FAIL in 3 of 3" in capsys.readouterr().out
    assert [seconds for _, seconds in system.asked] == [2.0, 2.0, 2.0]
    assert len(system.judged) == 2 and all(59.0 < seconds <= 60.0 for seconds in system.judged)
    assert list(made.found) == ["L1"] and made.unrepeated == []


def test_races_go_on_while_a_suspect_ages(exploring: Callable[[Fake], Explorer]) -> None:
    """Until its values have had their time. One that is wrong then is run again, as a suspect of its own."""
    system = Fake(*[(True, True)] * 3, (False, False), (True, True), *[(False, False)] * 3)
    system.looks = [(False, True)] * 4 + [(True, False)] * 2
    made = exploring(system)
    made.queues([RACE])
    run = made.run(FOUND[0])
    assert run is not None and made.suspect(run)
    names = [race.name for race in RACES]
    assert [said for said, _ in system.asked[3:]] == names[:2]
    assert (made.ran[RACE], [str(case) for case in made._later]) == (1, names[1:2])
    made._explore([], float("inf"), lambda: False)
    assert [said for said, _ in system.asked[3:]] == [*names[:2], names[1]]
    assert (made.ran[RACE], made._later) == (2, [])


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([(True, True), (False, False)], "L1 (1 of 2 runs)"),
        ([(True, True), (True, True), (False, False)], "L1 (2 of 3 runs)"),
        ([(True, True), (True, False), (True, True)], "L1 (2 of 3 runs)"),
        ([(True, True), (True, False), (True, False)], "L1 (1 of 3 runs)"),
    ],
)
def test_what_is_not_wrong_each_time_is_listed_and_does_not_count(
    runs: list[tuple[bool, bool]], said: str, exploring: Callable[[Fake], Explorer]
) -> None:
    """One of the two runs is right, at once or when its effects have had their time."""
    made = exploring(Fake(*runs))
    run = made.run(FOUND[0])
    assert run is not None and not made.suspect(run)
    assert made.unrepeated == [said] and made.found == {}
    assert f"not wrong each time, so not counted: {said}" in made.ending("s", [LOSE])


def test_a_system_that_needs_long_has_its_time_in_later_runs(
    exploring: Callable[[Fake], Explorer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If values become right after 9 s, later runs have half as much again; at most what effects have."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(explorer, "time", SimpleNamespace(monotonic=lambda: clock.now))
    system: Any = Fake((True, True), (True, False), (True, False), (False, False))
    made = exploring(system)

    def judge(run: Any, seconds: float, still: float) -> None:
        clock.now, run.violations = 9.0, ()

    monkeypatch.setattr(system, "judge", judge)
    run = made.run(FOUND[0])
    assert run is not None and not made.suspect(run)
    made.run(FOUND[1])
    assert [seconds for _, seconds in system.asked] == [2.0, 2.0, 2.0, 13.5]


@pytest.mark.parametrize(
    ("system", "listed"),
    [
        (Fake(*[(True, True)] * 3, reached=False), "did not happen in 3 tries: L1 (payable, lose order->stock POST"),
        (Fake(*[(True, True)] * 3, void="stock has exited"), "void, and not counted: L1 (stock has exited)"),
    ],
)
def test_a_case_that_is_not_reached_or_not_legal_is_never_shown(
    system: Fake, listed: str, exploring: Callable[[Fake], Explorer]
) -> None:
    """It is tried three times, and then listed."""
    made = exploring(system)
    assert made.run(FOUND[0]) is None
    assert len(system.asked) == 3
    assert listed in made.ending("s", [LOSE])


@pytest.fixture
def three(exploring: Callable[[Any], Explorer]) -> Callable[[Any], Explorer]:
    """An explorer of a given system with two services and a database."""

    def given(system: Any) -> Explorer:
        made = exploring(system)
        made._services, made._names = ["stock", "order"], ("db", "stock", "order")
        made._writing = {(scenario.name, name) for scenario in SCENARIOS for name in made._services}
        return made

    return given


def test_a_service_is_killed_at_writes_until_it_writes_no_more(three: Callable[[Any], Explorer]) -> None:
    """They come last, on a fresh start, and a service that has made fewer writes is left alone in this scenario."""
    system: Any = Fake()
    writes = {("payable", "stock"): 1, ("no credit", "order"): 2}
    asked = []

    def run(case: Case, seconds: float, still: float, flowing: bool = False) -> Any:
        asked.append(str(case))
        (fault,) = case.faults
        reached = fault.what != WRITE or fault.nth <= writes.get((case.scenario.name, fault.at), 0)
        return SimpleNamespace(case=case, violations=(), events=[], void="", reached=reached)

    system.run = run
    made = three(system)
    made.explore([LOSE, WRITE], float("inf"), lambda: False)
    lost = [str(case) for case in FOUND]
    assert asked[: len(lost)] == lost
    assert asked[len(lost) :] == [
        "payable, kill stock before its 1st write",
        "payable, kill order before its 1st write",
        "payable, kill stock before its 2nd write",
        "no credit, kill stock before its 1st write",
        "no credit, kill order before its 1st write",
        "no credit, kill order before its 2nd write",
        "no credit, kill order before its 3rd write",
        "no stock, kill stock before its 1st write",
        "no stock, kill order before its 1st write",
    ]
    assert made.ending("s", [LOSE, WRITE]).startswith(
        "nothing is wrong in any run\nexplored 16 of 16 (lose 13 of 13, write 3 of 3), 0 s; not expl"
    )
    assert "kills" not in made.ending("s", [LOSE, WRITE]) and made.unreached == []
    assert [str(made.find(name)) for name in ("W1", "no credit, kill order before its 3rd write")] == [
        "payable, kill stock before its 1st write",
        "no credit, kill order before its 3rd write",
    ]


def test_a_machine_that_cannot_trace_does_not_explore_writes(three: Callable[[Any], Explorer]) -> None:
    """It says why in one sentence, and goes on."""
    system: Any = Fake()

    def run(case: Case, seconds: float, still: float, flowing: bool = False) -> Any:
        raise TraceError("no process can be traced")

    system.run = run
    made = three(system)
    made.explore([WRITE], float("inf"), lambda: False)
    ending = made.ending("s", [WRITE]).splitlines()
    assert ending[0].startswith("only checkouts without a fault were run")
    assert ending[1] == "kills at writes are not explored: no process can be traced"


def plain_run(status: int, restless: int, scenario: int = 0, void: str = "") -> Any:
    """A plain run without violations."""
    return SimpleNamespace(
        case=Case(SCENARIOS[scenario]), statuses=(status,), restless=restless, messages=PLAIN, violations=(), void=void
    )


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (plain_run(200, 7), "a process of the system works all the time, so the grader cannot tell when a message"),
        (plain_run(503, 0), r"a checkout without a fault \(payable\) got 503, should be 2xx; mend this first"),
        (plain_run(200, 0, 1), r"a checkout without a fault \(no credit\) got 200, should be 4xx; mend this first"),
        (
            plain_run(200, 0, 0, "stock has exited"),
            r"a checkout without a fault \(payable\) cannot be judged: stock",
        ),
    ],
)
def test_a_system_that_cannot_be_explored_is_void(run: Any, said: str) -> None:
    """One that is never quiet, or whose plain checkouts are answered wrongly, in one sentence."""
    with pytest.raises(VoidError, match=said):
        explorer._check(run)


def test_a_slow_run_of_other_messages_is_void(exploring: Callable[[Fake], Explorer]) -> None:
    """Nothing is said of a case that has not happened."""
    run = SimpleNamespace(void="", reached=False)
    made = exploring(Fake())
    system: Any = SimpleNamespace(table=lambda: "", run=lambda case: run)
    made._system = system
    with pytest.raises(VoidError, match=r"L1 \(payable, lose .*\) has not happened: other messages came"):
        made.slow(FOUND[0])


def test_time_stands_still_while_a_person_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system is still waited for after a message that was released late."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(play, "time", SimpleNamespace(monotonic=lambda: clock.now))
    system: Any = SimpleNamespace(proxies=None, schedule=None, pace=lambda said: setattr(clock, "now", clock.now + 100))
    world: Any = SimpleNamespace(names={})
    made = play.Play(system, Case(SCENARIOS[0]), world, world, False)
    monkeypatch.setattr(made, "_go", lambda over: [over(), made._decide(1, PLAIN[5][0]), over()])
    assert made._rest() == [False, None, False]


SERVE = "exec python3 shop.py {port} {data}"
STAGES = {
    "build": ("single", "sleep 600 & touch $TMPDIR/here && wait", SERVE, ""),
    "start": ("single", "", "touch {data}/here && sleep 600 & wait", ""),
    "held": ("single", "", SERVE, "play.Play._decide = here"),
    "restart": ("single", "", f"if [ -e {{data}}/log ]; then touch {{data}}/here && sleep 600 & wait; fi; {SERVE}", ""),
    "confirm": ("only-in-memory", "", SERVE, "starts = [explorer.Explorer.start]; explorer.Explorer.start = once"),
}
"""How an exploration is brought to a stage and kept there: a system, its build, its service, and what is replaced in
the explorer. A file `here` says that it is there."""
CODE = """
import pathlib, sys, time
from grader import __main__, session
from grader.explore import explorer, play
from grader.sandbox import Plain, Tier

def here(*given):
    pathlib.Path(sys.argv[2]).touch()
    time.sleep(600)

def once(self):
    return starts.pop()(self) if starts else here(real(self))

real = explorer.Explorer.start
session.choose = lambda *how: (Tier(int(sys.argv[3]), "", ""), Plain())
exec(sys.argv[4])
raise SystemExit(__main__.main(["explore", sys.argv[1], "--only", "kill"]))
"""
SOME = [("build", signal.SIGKILL, 3), ("held", signal.SIGKILL, 3)]
"""The others are marked slow."""


@pytest.mark.parametrize(
    ("stage", "number", "tier"),
    [
        pytest.param(*each, marks=[pytest.mark.slow] * (each not in SOME), id=f"{each[0]}-{each[1].name}-{each[2]}")
        for each in product(STAGES, [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], [1, 2, 3])
    ],
)
def test_nothing_is_left_of_an_exploration_that_is_stopped(
    stage: str, number: signal.Signals, tier: int, tmp_path: Path
) -> None:
    """Its processes end, its folders are removed, and it exits with 130. After kill -9, the janitor does the same."""
    name, build, command, replaced = STAGES[stage]
    system, there, temporary = plant(name, tmp_path / "system"), tmp_path / "here", tmp_path / "tmp"
    temporary.mkdir()
    text = (system / "checkout.toml").read_text()
    text = re.sub(r"^command = .*$", lambda line: f"command = {json.dumps(['sh', '-c', command])}", text, flags=re.M)
    built = f"build = {json.dumps([['sh', '-c', build]])}\n" * bool(build)
    (system / "checkout.toml").write_text(built + text)
    line = [sys.executable, "-c", CODE, str(system), str(there), str(tier), replaced]
    environment = {**os.environ, "TMPDIR": str(temporary), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with (tmp_path / "output").open("w") as output:
        process = subprocess.Popen(line, cwd=ROOT, env=environment, stdout=output, stderr=output)
    while not (there.exists() or [*temporary.glob("*/here"), *temporary.glob("*/data/*/here")]):
        assert process.poll() is None, (tmp_path / "output").read_text()
        time.sleep(0.02)
    started = descendants([process.pid], processes())
    process.send_signal(number)
    assert process.wait(60.0) == (-signal.SIGKILL if number == signal.SIGKILL else 130)
    until = time.monotonic() + (60.0 if number == signal.SIGKILL else 0.0)
    while left(started, temporary) and time.monotonic() < until:
        time.sleep(0.02)
    assert left(started, temporary) == set()


def left(started: set[int], folder: Path) -> set[object]:
    """The processes that still run, and the folders."""
    now = processes()
    running = {pid for pid in started & now.keys() if now[pid].state not in "ZX"}
    return {*running, *folder.iterdir()}
