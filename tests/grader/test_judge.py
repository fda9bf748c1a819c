"""Verdicts, scores and reports of handmade records."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from records import SECOND, answered, charged, orders_of, right, shots, snapshot, unpaid, value

from grader.record import Record, SentWave, load, save
from grader.record.notes import Round, Scarcity
from grader.report import summary, write
from grader.table import JUDGED, PHASES
from grader.terms import Entity, Kind, State, Status
from grader.verdict import Judgement, judge
from grader.verdict.story import story
from grader.verdict.violations import LOST


def rules(judgement: Judgement) -> set[tuple[str, str]]:
    return {(v.rule, v.label) for v in judgement.violations}


def test_a_right_run_passes_with_all_points_but_speed() -> None:
    """Five clean phases: pass, and 85 of 100 without a speed phase."""
    judgement = judge(right())
    assert judgement.verdict == "pass" and judgement.violations == ()
    assert judgement.score is not None and judgement.score.points == 85.0
    assert ("phase speed", "not requested") in judgement.not_tested


def test_a_run_of_some_phases_has_a_verdict_and_no_score() -> None:
    """The verdict covers what ran."""
    judgement = judge(right(("load",)))
    assert judgement.verdict == "pass" and judgement.score is None
    assert judgement.phases["faults"].verdict == "not_tested"


def test_a_phase_that_came_later_takes_no_score_from_a_record() -> None:
    """A record needs the phases that its own rubric has points for."""
    record = right(tuple(phase for phase in JUDGED if phase != "scarcity"))
    record.about["asked"] = [phase for phase in PHASES if phase != "scarcity"]
    assert judge(record).score is None
    record.about["rubric"] = {name: most for name, most in record.about["rubric"].items() if name != "scarcity"}
    judgement = judge(record)
    assert judgement.verdict == "pass" and judgement.score is not None
    assert [part.name for part in judgement.score.parts if part.name in JUDGED] == [
        p for p in JUDGED if p != "scarcity"
    ]


def test_a_charge_too_many_is_named_and_caps_the_score() -> None:
    """One order charged twice: its label and id, its phase fails with 0 points, the whole is at most 40."""
    record = right()
    charged(record, "faults", 7)
    judgement = judge(record)
    assert rules(judgement) == {("charged_times", "faults-000007")} and judgement.verdict == "fail"
    assert judgement.violations[0].order_id == "faults-o7"
    assert judgement.score is not None and (judgement.score.points, judgement.score.capped) == (40.0, True)


def test_an_effect_after_the_accepted_snapshot_is_unstable() -> None:
    """The run's last snapshot must equal the accepted pair."""
    record = right()
    for phase in ("duplicates", "load"):
        item = int(record.lines["item"][record.lines["order"] == orders_of(record, phase)[0]][0])
        value(record, shots(record, phase)[-1:], Entity.ITEM, item, lambda old: old - 1)
    judgement = judge(record)
    assert [(v.rule, v.phase) for v in judgement.violations] == [("unstable", "duplicates"), ("unstable", "load")]


GONE = [(State.LOST, "no answer"), (State.UNKNOWN, "unknown id"), (State.MALFORMED, "unreadable answer")]


@pytest.mark.parametrize(("begin", "end", "crossed"), [(1, 2, True), (4, 9, True), (6, 7, False)])
def test_an_order_that_met_a_top_up_may_be_innocent(begin: int, end: int, crossed: bool) -> None:
    """If credit was added during the order's checkout, the detail says that the addition may have been overwritten."""
    record = right(("load",))
    order = 7
    mine = np.flatnonzero((record.history["kind"] == Kind.CHECKOUT) & (record.history["subject"] == order))
    sent, user = int(record.history["sent"][mine[0]]), int(record.orders["user"][order])
    at = {"due": sent, "sent": sent + begin * 1_000_000, "done": sent + end * 1_000_000}
    record.history.append(wave=0, kind=int(Kind.ADD_FUNDS), subject=[user], attempt=1, status=200, waited=0, **at)
    charged(record, "load", order)
    (found,) = judge(record).violations
    assert found.order == order and found.detail.startswith("charged 2 times, should be once")
    assert found.detail.endswith(", or an addition of credit at that moment was overwritten") is crossed


@pytest.mark.parametrize("kill", [82, 15, 0])
def test_what_a_kill_removes_is_lost_in_the_faults_phase_alone(kill: int) -> None:
    """Ids that are gone after a kill break a rule of faults. Without a kill since then, each phase is unstable."""
    record = right()
    if kill:
        record.events.append(at=kill * SECOND, process="shop", what="kill", detail="")
    table, final = record.snapshots, shots(record, "faults")
    earlier = np.isin(record.orders["phase"], ["duplicates", "load", "scarcity"])
    for entity in Entity:
        rows = np.flatnonzero(np.isin(record.rows(entity)["phase"], ["duplicates", "load", "scarcity"]))
        gone = (table["snapshot"] == final[-1]) & (table["kind"] == entity) & np.isin(table["subject"], rows)
        table["state"][gone], table["value"][gone] = State.UNKNOWN, 0
    judgement = judge(record)
    if kill < 82:
        assert [(v.rule, v.phase) for v in judgement.violations] == [
            ("unstable", phase) for phase in ("duplicates", "load", "scarcity")
        ]
        return
    assert {(v.rule, v.phase, v.detail) for v in judgement.violations} == {("ok_not_paid", "faults", LOST)}
    assert {v.order for v in judgement.violations} == set(np.flatnonzero(earlier).tolist())
    verdicts = {name: phase.verdict for name, phase in judgement.phases.items() if name != "speed"}
    assert verdicts == {**dict.fromkeys(verdicts, "pass"), "faults": "fail"}
    told = story(record, int(np.flatnonzero(earlier)[0]), "faults")
    assert told.paid == "no such order" and told.sums[0].shown is None


@pytest.mark.parametrize(("state", "said"), GONE)
def test_a_thing_that_becomes_unreadable_is_unstable(state: State, said: str) -> None:
    """A thing that can no longer be read is unstable, and the report names the state."""
    record = right()
    table, (last,) = record.snapshots, shots(record, "none")
    user = int(record.orders["user"][orders_of(record, "duplicates")[0]])
    mine = (table["snapshot"] == last) & (table["kind"] == Entity.USER) & (table["subject"] == user)
    before = int(table["value"][mine][0])
    table["state"][mine], table["value"][mine] = state, 0
    (found,) = judge(record).violations
    assert found.rule == "unstable" and found.detail.endswith(f"first {before:,}, then {said}")


@pytest.mark.parametrize(("status", "wrong"), [(503, False), (int(Status.TIMEOUT), False), (200, True), (400, True)])
def test_an_order_may_be_completed_after_the_accepted_pair(status: int, wrong: bool) -> None:
    """A recovery on a timer may complete an order without an answer, if everything still adds up."""
    record = right(("faults",))
    order = int(orders_of(record, "faults")[0])
    record.history["status"][record.history["subject"] == order] = status
    before = shots(record, "faults")[:-1]
    unpaid(record, before, order)
    assert (judge(record).verdict == "fail") is wrong
    user = int(record.orders["user"][orders_of(record, "faults")[-1]])
    value(record, shots(record, "faults")[-1:], Entity.USER, user, lambda old: old - 1)
    assert judge(record).verdict == "fail"


def test_what_was_shed_counts_when_it_is_done_later() -> None:
    """Half of 36 orders are shed. They count if they are done later; otherwise too few are done."""
    for later, verdict in ((200, "pass"), (429, "fail")):
        record = right(("load",))
        mine = orders_of(record, "load")
        record.history["status"][np.isin(record.history["subject"], mine[::2])] = 429
        record.waves.append(SentWave("load", "later", 0, len(mine[::2]), counts=False, again=True))
        at = 3 * SECOND
        record.history.append(
            wave=len(record.waves) - 1, kind=int(Kind.CHECKOUT), subject=mine[::2], attempt=2, status=later, waited=0,
            due=at, sent=at, done=at,
        )  # fmt: skip
        judgement = judge(record)
        assert judgement.verdict == verdict
        figures = judgement.phases["load"].figures
        assert (figures["offered"], figures["done_again"]) == (36, 18 if verdict == "pass" else 0)


def test_a_snapshot_before_a_top_up_does_not_decide() -> None:
    """After its top-up the phase never settled. The wrong values are named, but not those that the top-up changed."""
    record = right()
    accepted = shots(record, "duplicates")[:2]
    order, other = (int(row) for row in orders_of(record, "duplicates")[:2])
    value(record, accepted, Entity.ORDER, other, lambda old: 0)
    for at in (190, 192):
        snapshot(record, "duplicates", at * SECOND, accepted=False)
    value(record, [len(record.snapshots_taken) - 1], Entity.ORDER, order, lambda old: 0)
    assert {rule for rule, label in rules(judge(record)) if label == "duplicates-000001"} == set()
    assert ("ok_not_paid", "duplicates-000000") in rules(judge(record))


def test_a_value_that_is_sometimes_wrong_is_wrong() -> None:
    """If no pair was accepted and the last snapshot is clean by chance, the one before names the order."""
    record = right()
    order = int(orders_of(record, "load")[4])
    for at in (190, 192):
        snapshot(record, "load", at * SECOND, accepted=False)
    value(record, [len(record.snapshots_taken) - 2], Entity.ORDER, order, lambda old: 0)
    judgement = judge(record)
    assert ("ok_not_paid", "load-000004") in rules(judgement)
    assert story(record, order, "load").paid == "not paid"


def test_an_acknowledged_order_that_is_gone_is_not_paid() -> None:
    """A 404 for an order that was answered 2xx is a lost acknowledgement, not just a missing answer."""
    record = right()
    order = int(orders_of(record, "faults")[3])
    table = record.snapshots
    table["state"][(table["kind"] == Entity.ORDER) & (table["subject"] == order)] = State.UNKNOWN
    assert ("ok_not_paid", "faults-000003") in rules(judge(record))


def test_a_refusal_with_enough_of_everything_is_false() -> None:
    """In the load phase a 409 for a new order is a false refusal; a 429 is not."""
    for status, expected in ((409, {("false_refusal", "load-000005")}), (429, set())):
        record = right()
        order = int(orders_of(record, "load")[5])
        record.history["status"][record.history["subject"] == order] = status
        unpaid(record, shots(record, "load"), order)
        assert rules(judge(record)) == expected


def slow(record: Record, foreign: float) -> Record:
    """A load phase whose first ten checkouts time out, with a late generator and the given foreign CPU."""
    history = record.history
    mine = np.flatnonzero((history["kind"] == Kind.CHECKOUT) & np.isin(history["subject"], orders_of(record, "load")))
    history["status"][mine[:10]] = Status.TIMEOUT
    history["sent"][mine] += 50_000_000
    record.samples.append(at=45 * SECOND, generator=0.1, services=0.1, foreign=foreign)
    return record


@pytest.mark.parametrize("by", ["stock", "credit"])
@pytest.mark.parametrize(("missing", "rule"), [(1, "leaked"), (0, "never_sold")])
def test_undersold_with_amounts_that_add_up_is_never_sold(by: str, missing: int, rule: str) -> None:
    """Fewer orders than enough: leaked if stock or credit is missing, never_sold if all of it is there."""
    record = right()
    orders, (number, *_) = orders_of(record, "scarcity"), shots(record, "scarcity")
    turn = Round(by, len(orders) + 1, (int(orders[0]), int(orders[-1])), number)
    record.phases["scarcity"] = Scarcity(begin_s=60.0, end_s=70.0, settled_s=0.0, rounds=[turn])
    user, item = int(record.orders["user"][orders[0]]), int(record.lines["item"][record.lines["order"] == orders[0]][0])
    scarce = (Entity.ITEM, item) if by == "stock" else (Entity.USER, user)
    value(record, shots(record, "scarcity"), *scarce, lambda old: old - missing)
    found = [v for v in judge(record).violations if v.rule in ("leaked", "never_sold")]
    assert [v.rule for v in found] == [rule]
    assert found[0].detail == f"there was enough {by} for {len(orders) + 1} orders, but {len(orders)} are paid"


def test_void_needs_a_busy_machine() -> None:
    """Too few done is void with a late generator and foreign CPU, otherwise a fail. A violation always fails."""
    assert judge(slow(right(), foreign=0.0)).verdict == "fail"
    busy = slow(right(), foreign=1.5)
    judgement = judge(busy)
    assert judgement.verdict == "void" and judgement.score is None
    order = int(orders_of(busy, "load")[30])
    value(busy, shots(busy, "load"), Entity.ORDER, order, lambda old: 0)
    assert judge(busy).verdict == "fail"


def test_the_same_record_gives_the_same_bytes(tmp_path: Path) -> None:
    """Judging a saved record twice gives equal reports. A void run has no score to hand in."""
    record = right()
    save(record, tmp_path / "run")
    first, _ = write(tmp_path / "run", tmp_path / "a")
    write(tmp_path / "run", tmp_path / "b")
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == ["report.html", "report.json", "results.json"]
    assert all((tmp_path / "a" / n).read_bytes() == (tmp_path / "b" / n).read_bytes() for n in names)
    assert json.loads((tmp_path / "a" / "results.json").read_text())["score"] == 85.0
    again = load(tmp_path / "run")
    assert judge(again) == first == judge(record)
    save(slow(right(), foreign=1.5), tmp_path / "void")
    write(tmp_path / "void", tmp_path / "a")
    graded = json.loads((tmp_path / "a" / "results.json").read_text())
    assert "score" not in graded and graded["tests"] == [] and "VOID" in graded["output"]


def test_text_of_a_submission_is_escaped(tmp_path: Path) -> None:
    """Names and ids are data in every report: no markup, no control sequence."""
    record = right()
    record.about["submission"]["name"] = "=<script>alert(1)</script>\x1b[2J"
    record.orders["id"][orders_of(record, "faults")[7]] = "<img src=x onerror=alert(1)>"
    value(record, shots(record, "faults"), Entity.ORDER, int(orders_of(record, "faults")[7]), lambda old: 0)
    save(record, tmp_path / "run")
    _, text = write(tmp_path / "run", tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<script" not in page and "<img" not in page and "&lt;img" in page and "\x1b" not in text


def test_text_of_a_submission_cannot_fake_a_line() -> None:
    """A name, answer or log with line breaks stays on one line or is quoted, so it cannot fake a score."""
    forged = "\n  score 100.0 of 100\n"
    record = right()
    record.about["submission"]["name"] = f"team{forged}"
    answered(record, "POST /create_user", f"answered 200{forged}")
    said = summary(record, judge(record))
    assert "contract: no single order: t: " in said and forged.strip() in said
    record.about["failure"] = {"kind": "submission", "why": f"shop is not ready; it printed:{forged}"}
    for text in (said, summary(record, judge(record))):
        assert [line for line in text.splitlines() if line.startswith("  score 100.0")] == []


def test_an_order_whose_digits_its_hot_item_contradicts_has_candidates() -> None:
    """Nine effects of slot 0 look like two of slot 1. The hot item of slot 0 shows it, so its order is a candidate."""
    record = right(("load",))
    lines, slots = record.lines, record.orders["slot"]
    item = int(lines["item"][lines["order"] == 0][0])
    of_item = lines["order"][lines["item"] == item]
    low, high = (int(of_item[slots[of_item] == slot][0]) for slot in (0, 1))
    hot = int(lines["item"][lines["order"] == low][1])
    units = int(lines["quantity"][(lines["order"] == low) & (lines["item"] == hot)][0])
    value(record, shots(record, "load"), Entity.ITEM, item, lambda old: old - 8)
    value(record, shots(record, "load"), Entity.ITEM, hot, lambda old: old - 8 * units)
    found = {v.label: v for v in judge(record).violations if v.label}
    assert found[f"load-{high:06d}"].candidates == (f"load-{low:06d}",)
    assert found[f"load-{high:06d}"].rows == (low,) and found[f"load-{high:06d}"].times == 2
