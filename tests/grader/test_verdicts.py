"""Proven, void and failed: which of them a phase and a run are, whatever ended the run."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from boxes import sandbox
from records import SECOND, answered, charged, orders_of, right, shots, snapshot, unpaid

from grader import session
from grader.classroom.checkout import result
from grader.errors import SubmissionError, VoidError
from grader.processes import Supervisor
from grader.record import Record, load, save
from grader.record.notes import Contract, Notes, Speed
from grader.report import summary, write
from grader.report.as_json import content
from grader.submission import Process, Submission
from grader.table import JUDGED, PHASES
from grader.terms import Entity, Kind, Limits, State
from grader.verdict import Judgement, judge
from grader.verdict.violations import completed
from grader.wire.client import Generator

MACHINE = {"kind": "void", "why": "the generator's process has exited with 1"}
GRADER = {"kind": "grader", "why": "the grader itself failed (KeyError: 'x')"}
SUBMISSION = {"kind": "submission", "why": "the services use 9,000 MiB of memory; the limit is 8,192 MiB"}
KEY = {"submission": "s" * 64, "bundle": "b" * 64, "grader": "g" * 64}
Failure = dict[str, str]


def wrong(record: Record, phase: str) -> Record:
    """Charge one order of a phase twice in every snapshot that has it."""
    charged(record, phase, 3)
    return record


def busy(record: Record, phase: str) -> Record:
    """Let a tenth of a phase's checkouts time out while other programs use the machine and the generator is late."""
    notes, orders = record.phases[phase], record.orders["phase"] == phase
    mine = np.flatnonzero(np.isin(record.history["subject"], np.flatnonzero(orders)))
    record.history["sent"][mine] += 40_000_000
    record.history["status"][mine[: len(mine) // 5]] = -1
    at = np.arange(int(notes.begin_s or 0), int(notes.end_s or 0) + 1, dtype=np.int64) * SECOND
    record.samples.append(at=at, generator=0.1, services=0.2, foreign=1.5)
    return record


def cut(record: Record, phase: str, failure: Failure) -> Record:
    """End the run in the middle of a phase: it has no end, later phases and the last snapshot do not exist."""
    about, kept = record.about, JUDGED[: JUDGED.index(phase) + 1]
    record.phases[phase].end_s = None
    for later in JUDGED[len(kept) :]:
        del record.phases[later]
    about["snapshots"] = [shot for shot in record.snapshots_taken if shot["phase"] in kept]
    about["failure"] = failure
    return record


def verdicts(judgement: Judgement) -> dict[str, str]:
    return {name: judgement.phases[name].verdict for name in JUDGED}


@pytest.mark.parametrize("failure", [MACHINE, GRADER, SUBMISSION], ids=lambda failure: failure["kind"])
def test_a_proven_violation_is_a_fail_whatever_ends_the_run(failure: Failure) -> None:
    """An order that was charged twice stays a fail, and is named, if the run ends in a later phase."""
    judgement = judge(cut(wrong(right(), "duplicates"), "scarcity", failure))
    assert judgement.verdict == "fail"
    assert [(v.rule, v.label) for v in judgement.violations] == [("charged_times", "duplicates-000003")]
    assert verdicts(judgement)["duplicates"] == "fail" and verdicts(judgement)["load"] == "pass"


@pytest.mark.parametrize(("failure", "verdict"), [(MACHINE, "void"), (GRADER, "void"), (SUBMISSION, "fail")])
def test_a_run_without_a_violation_is_what_ended_it(failure: Failure, verdict: str) -> None:
    """The machine and the grader void a run in which nothing was proven. The submission fails, with 0 points."""
    judgement = judge(cut(right(), "scarcity", failure))
    assert (judgement.verdict, judgement.why, judgement.violations) == (verdict, failure["why"], ())
    assert verdicts(judgement) == {
        **dict.fromkeys(("contract", "duplicates", "load"), "pass"), "scarcity": verdict, "faults": "not_tested",
    }  # fmt: skip
    assert judgement.at_most is None
    assert (None if judgement.score is None else judgement.score.points) == (0.0 if verdict == "fail" else None)


def test_a_busy_phase_does_not_void_what_another_proves() -> None:
    """A phase that the machine was too busy for is void. The run is a fail, with the points that it can still have."""
    record = busy(right(), "load")
    assert judge(record).verdict == "void"
    judgement = judge(wrong(record, "duplicates"))
    assert judgement.verdict == "fail" and verdicts(judgement)["load"] == "void"
    assert judgement.score is None and judgement.at_most is not None and judgement.at_most.points == 40.0


@pytest.mark.parametrize(("failure", "at_most"), [(MACHINE, 40.0), (SUBMISSION, None)])
def test_a_fail_whose_rest_was_not_judged_says_what_it_can_have(failure: Failure, at_most: float | None) -> None:
    """If the machine ended the run, the rest can be judged later. If the submission ended it, it has 0 points."""
    judgement = judge(cut(wrong(right(), "duplicates"), "scarcity", failure))
    assert (judgement.at_most and judgement.at_most.points) == at_most
    assert (judgement.score is None) == (failure is MACHINE)
    refused = right()
    mine = refused.history["subject"] == orders_of(refused, "load")[0]
    refused.history["status"][mine] = 404
    unpaid(refused, shots(refused, "load"), int(orders_of(refused, "load")[0]))
    judgement = judge(cut(refused, "faults", failure))
    assert [v.rule for v in judgement.violations] == ["false_refusal"] and judgement.verdict == "fail"
    # 15 points of load, and 2 for false refusals. No safety rule is broken, so the cap does not apply.
    assert (judgement.at_most and judgement.at_most.points) == (68.0 if failure is MACHINE else None)


def test_a_phase_that_was_cut_off_is_judged_on_its_last_settled_snapshot() -> None:
    """Requests after that snapshot prove nothing, because their effects and retries were still to come."""
    record = cut(right(), "scarcity", MACHINE)
    order = int(orders_of(record, "scarcity")[0])
    after = max(shot["end"] for shot in record.snapshots_taken) + SECOND
    later = {"due": after, "sent": after, "done": after + 1000}
    for status in (409, 200):
        refused = int(orders_of(record, "scarcity")[1 if status == 409 else 2])
        record.history["status"][record.history["subject"] == refused] = 409 if status == 200 else -4
        record.history.append(
            wave=3, kind=int(Kind.CHECKOUT), subject=[refused], attempt=2, status=status, waited=0, **later
        )
        unpaid(record, shots(record, "scarcity"), refused)
    assert judge(record).verdict == "void" and judge(record).violations == ()
    assert order >= 0


@pytest.mark.parametrize("phase", ["load", "speed"])
def test_a_phase_that_has_no_snapshot_yet_proves_nothing(phase: str) -> None:
    """No load, or no rate, has been measured yet, so none of them is too low."""
    record = right()
    if phase == "load":
        del record.phases["scarcity"], record.phases["faults"]
        record.phases["load"].end_s = None
        gone = np.isin(record.history["subject"], orders_of(record, "load"))
        record.history["kind"][gone] = Kind.FIND_ORDER
    else:
        record.about.update(require=1000, asked=[*JUDGED, "speed"])
        record.phases["speed"] = Speed(begin_s=120.0)
    record.about["snapshots"] = [
        shot for shot in record.snapshots_taken if shot["phase"] in JUDGED[: 2 if phase == "load" else 5]
    ]
    record.about["failure"] = MACHINE
    assert (judge(record).verdict, judge(record).violations) == ("void", ())


@pytest.mark.parametrize(
    ("exchange", "ended", "proven"),
    [
        ({"request": "POST stock /add/1/5"}, False, True),
        ({"request": "GET stock /find/1"}, False, False),
        ({"request": "GET stock /find/1", "why": "it has no field stock"}, False, True),
        ({"request": "GET stock /find/1"}, True, True),
        ({"request": "GET stock /find/1", "again": True}, True, False),
    ],
)
def test_a_wrong_answer_is_proven_unless_it_was_to_be_asked_again(
    exchange: dict[str, Any], ended: bool, proven: bool
) -> None:
    """A wrong value may be late until the end of its phase. The repetitions at the end of the run count when done."""
    record = cut(right(), "duplicates" if ended else "contract", MACHINE)
    answered(record, **exchange)
    assert judge(record).verdict == ("fail" if proven else "void")


def test_a_system_that_does_not_answer_at_all_has_0_points() -> None:
    """It ended the run, because the grader skips the rest after four requests without an answer."""
    record = right()
    answered(record, status=-1)
    record.phases["contract"] = Contract(begin_s=1.0, end_s=11.0, silent=True)
    for phase in JUDGED[1:]:
        record.phases[phase] = Notes(skipped="the system did not answer four requests in a row in the contract phase")
    judgement = judge(record)
    assert judgement.verdict == "fail" and judgement.score is not None and judgement.score.points == 0
    found = result(json.loads(json.dumps(content(record, judgement))), 6, KEY)
    assert {check["outcome"] for check in found["checks"]} == {"fail", "unreached"} and "four requests" in found["why"]
    record.about["asked"] = ["contract"]
    assert judge(record).score is None


def test_a_row_that_is_gone_from_the_last_snapshot_is_left_out() -> None:
    """A top-up that was not acknowledged takes its user out of later snapshots. The others are still compared."""
    record = right()
    gone = int(np.flatnonzero(record.users["phase"] == "scarcity")[-1])
    order = next(int(row) for row in orders_of(record, "scarcity") if record.orders["user"][row] != gone)
    first = shots(record, "scarcity")[-2]
    snapshot(record, "scarcity", 75 * SECOND)
    last = len(record.snapshots_taken) - 1
    table = record.snapshots
    away = (table["snapshot"] == last) & (table["kind"] == Entity.USER) & (table["subject"] == gone)
    table["subject"][away], table["snapshot"][away] = 0, len(record.snapshots_taken) + 1
    record.users["ready"][gone] = 0
    record.history["status"][record.history["subject"] == order] = -2
    unpaid(record, [first], order)
    assert completed(record, first, last)
    user = int(record.orders["user"][order])
    state = (table["snapshot"] == last) & (table["kind"] == Entity.USER) & (table["subject"] == user)
    table["value"][state] -= 1
    table["state"][state] = State.READ
    assert not completed(record, first, last)


def test_class_report_and_summary_say_the_same(tmp_path: Path) -> None:
    """A fail whose rest was not judged: at most N points, run again for the rest, in each place."""
    record = cut(wrong(right(), "duplicates"), "scarcity", MACHINE)
    save(record, tmp_path)
    judgement, text = write(tmp_path, tmp_path)
    said = "at most 40 of 100 points; run it again for the rest"
    assert judgement.verdict == "fail" and said in text and MACHINE["why"] in text
    page, report = (tmp_path / "report.html").read_text(), json.loads((tmp_path / "report.json").read_text())
    assert (report["verdict"], report["score"], report["at_most"], report["why"]) == (
        "fail",
        None,
        40.0,
        MACHINE["why"],
    )
    assert "at most 40 of 100" in page and "run it again for the rest" in page
    assert said in json.loads((tmp_path / "results.json").read_text())["output"]
    found = result(report, 6, KEY)
    assert found["status"] == "unfinished" and MACHINE["why"] in found["why"] and found["unsafe"]
    assert {check["check"]: check["outcome"] for check in found["checks"]}["duplicates"] == "fail"
    assert "charged 2 times" in " ".join(check["got"] for check in found["checks"])
    assert summary(load(tmp_path), judgement) == text


def test_class_counts_a_busy_phase_beside_a_proven_one_as_the_report_does() -> None:
    """A void phase does not make a team void if another phase proves a violation."""
    report = json.loads(json.dumps(content(record := wrong(busy(right(), "load"), "duplicates"), judge(record))))
    assert result(report, 6, KEY)["status"] == "unfinished"
    assert Decimal(str(report["at_most"])) == 40


def _ran(monkeypatch: pytest.MonkeyPatch, out: Path, live: Any) -> tuple[Judgement, Record]:
    """Run a session whose live part is ``live(record, ends)``, and judge what it has written."""
    monkeypatch.setattr(session, "_live", lambda ran: live(ran.record, ran.ends))
    wish = session.Wish(Submission("team", None, {}), PHASES, Limits(), 1, 0, "checkout team", "quick")
    session.run(wish, out, lambda step: None)
    return write(out, out)[0], load(out)


def _filled(record: Record, made: Record) -> None:
    about = {**made.about, "failure": None}
    del about["failure"]
    record.about.update(about)
    record.tables.update(made.tables)
    record.waves, record.phases, record.exchanges = made.waves, made.phases, made.exchanges


@pytest.mark.parametrize("proven", [True, False])
def test_an_exception_of_the_grader_is_recorded_with_what_was_proven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proven: bool
) -> None:
    """The run is a fail if something was proven, and void otherwise. The record has the traceback."""
    made = cut(wrong(right(), "duplicates") if proven else right(), "scarcity", GRADER)

    def live(record: Record, ends: ExitStack) -> None:
        _filled(record, made)
        raise KeyError("half")

    judgement, record = _ran(monkeypatch, tmp_path, live)
    assert judgement.verdict == ("fail" if proven else "void") and len(judgement.violations) == proven
    assert judgement.why == "the grader itself failed (KeyError: 'half'); tell its authors"
    assert "raise KeyError" in record.about["failure"]["trace"]
    assert judge(load(tmp_path)) == judgement


def test_an_error_while_processes_are_ended_does_not_change_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything has been judged by then. The report lists the error."""

    def fails() -> None:
        raise VoidError("processes [7] have survived SIGKILL; restart the machine")

    def live(record: Record, ends: ExitStack) -> None:
        ends.callback(fails)
        _filled(record, right())

    judgement, record = _ran(monkeypatch, tmp_path, live)
    assert judgement.verdict == "pass" and "failure" not in record.about
    (said,) = [why for what, why in judgement.not_tested if what == "the end of all processes"]
    assert said == "processes [7] have survived SIGKILL; restart the machine"


def test_a_fixed_port_in_use_is_the_submissions_error(tmp_path: Path) -> None:
    """The run fails with the sentence that mends it. A port that the grader chooses is never in use."""
    (tmp_path / "scratch").mkdir()
    generator, box = Generator(), sandbox(3, tmp_path)
    try:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            process = Process("shop", "other", ("sleep", "60"), port=port)
            shop = Submission("team", tmp_path, {}, (process,))
            services = Supervisor(shop, tmp_path, tmp_path / "scratch", box, generator, Limits(), lambda *note: None)
            with pytest.raises(SubmissionError, match=rf"shop: another program .* port {port}; remove port from"):
                services.start_all()
            services.close()
    finally:
        generator.close()
        box.close()
