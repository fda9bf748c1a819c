"""explore.html and explore.json: what they say of a run, from stored reports and from runs that are made here.

The files in stored/ were written by `python -m grader explore`; the first line of README.md there has the commands.
"""

from __future__ import annotations

import json
import re
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
from test_explore import ASK, FOUND, ROOT, TAKE, TAKEN
from test_page import NASTY, Page

from grader.explore import looks, shown
from grader.explore.cases import KILL, LATE, RACES, SCENARIOS, Case, Fault, Swap, kills
from grader.explore.connection import Event
from grader.explore.cutter import ANSWER, BURST, REQUEST
from grader.explore.drawn import EXPLORER, SHOP, Step, drawn
from grader.explore.looks import LEFT_OUT, Looks, looked
from grader.explore.shown import SENTENCES, Shown, Value
from grader.explore.steps import KILLED, STARTED, UP
from grader.report.causes import CAUSES, LOST_IN_KILL
from grader.report.explored import JSON, PAGE, as_html, write_explored
from grader.report.explored.usual import USUAL
from grader.terms import Kind

STORED = Path(__file__).resolve().parent / "stored"
REPORTS = sorted(STORED.glob("*.json"))
SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "explore.schema.json").read_text("utf-8")))
NOTHING: dict[str, Any] = {
    "explore": 1, "name": "s", "again": "python -m grader explore s", "processes": ["order"], "tier": 3, "cases": [],
    "kinds": [{"kind": "lose", "ran": 7, "possible": 11}, {"kind": "race", "ran": 2, "possible": 5}],
    "not_explored": ["kills at writes"], "not_repeated": ["L1 (1 of 2 runs)"], "not_run_again": [],
    "not_reached": [], "void": [], "second_faults_missed": 3, "held_too_long": 0,
}  # fmt: skip


def stored(name: str) -> dict[str, Any]:
    """A stored report."""
    told: dict[str, Any] = json.loads((STORED / f"{name}.json").read_text("utf-8"))
    return told


def words(told: dict[str, Any]) -> str:
    """The text of the page of a report, with single spaces."""
    return re.sub(r"\s+", " ", Page(as_html(told)).text)


def run_of(events: list[Event], case: Case, again: tuple[str, ...] = (), others: tuple[int, ...] = ()) -> Any:
    """A run of which only the events are known."""
    messages = [(event, "") for event in events if event.what == "delivered"]
    names = {"7": "X", "8": "O"}
    return SimpleNamespace(
        case=case, events=events, others=frozenset(others), again=again, messages=messages,
        world=SimpleNamespace(names=names),
    )  # fmt: skip


ASKED = ASK._replace(kind=REQUEST, first="POST /checkout/8 HTTP/1.1", what="delivered", connection=1, message=1)
TOOK = TAKE._replace(first="POST /take/7/2 HTTP/1.1", connection=2, message=2)
ANSWERED = TAKEN._replace(first="HTTP/1.1 200 OK", connection=2, message=4)
NO = Event("delivered", "order", "client", 1, 3, ANSWER, "HTTP/1.1 503 NO")


def test_a_late_request_is_drawn_with_who_has_done_what() -> None:
    """The explorer breaks the connection and lets the request arrive; the shop answers between and after that."""
    events = [
        ASKED, TOOK._replace(what="arrived"), TOOK._replace(what="kept"), NO, TOOK._replace(what="late"),
        ANSWERED._replace(what="arrived"), ANSWERED._replace(what="dropped"),
    ]  # fmt: skip
    steps = [*drawn(run_of(events, FOUND[1]))]
    assert [(each.mark, each.by, each.sender, each.receiver, each.word) for each in steps] == [
        ("message", "", "client", "order", "POST /checkout/O"),
        ("lost", EXPLORER, "order", "stock", "POST /take/X/2"),
        ("answer", SHOP, "order", "client", "503"),
        ("late", EXPLORER, "order", "stock", "POST /take/X/2"),
        ("unheard", SHOP, "stock", "order", "200"),
    ]
    assert [each.at for each in steps] == [0, 2, 3, 4, 6]


def test_a_kill_has_its_victims_and_the_start_has_the_same() -> None:
    """So have a caller that gives up, and a checkout that is repeated after the run."""
    events = [
        ASKED,
        TOOK._replace(what="struck"),
        Event("kill"),
        Event(KILLED, "order"),
        Event(KILLED, "stock"),
        TOOK._replace(what="dropped"),
        *(Event(what, name) for name in ("order", "stock") for what in (STARTED, UP)),
        TOOK._replace(what="delivered", message=9),
        TOOK._replace(what="gone"),
    ]
    case = Case(SCENARIOS[0], (Fault(KILL, "order->stock POST /take/X/2", victims=("order", "stock")),))
    steps = [*drawn(run_of(events, case, ("client -> order   POST /checkout/O, once more: answered 200",), (9,)))]
    assert [(each.mark, each.by, each.processes) for each in steps] == [
        ("message", "", ()),
        ("killed", EXPLORER, ("order", "stock")),
        ("lost", EXPLORER, ()),
        ("started", EXPLORER, ("order", "stock")),
        ("gave up", SHOP, ("order",)),
        ("message", EXPLORER, ()),
    ]
    assert (steps[-1].sender, steps[-1].receiver, steps[-1].word) == ("client", "order", "POST /checkout/O")


def test_a_message_that_overtakes_another_one_is_done_by_the_explorer() -> None:
    """What comes before it is the usual order, and what comes after it is the shop's."""
    events = [TOOK._replace(what="delivered", message=number) for number in (5, 6, 7)]
    case = Case(RACES[0], swaps=(Swap(2, "order->stock POST /take/X/2"),), id="R1.1")
    assert [each.by for each in drawn(run_of(events, case))] == ["", EXPLORER, SHOP]
    assert [each.by for each in drawn(run_of(events[:1], case))] == [""]


def test_all_that_can_be_done_has_advice_and_a_sentence_of_the_assignment() -> None:
    """The sentence stands in the section that allows it, and has the words which the terminal shows."""
    some = [
        *FOUND,
        *kills([(SCENARIOS[0], [(TOOK, "order->stock POST /take/X/2")] * 2)], ["stock", "order"]),
        Case(SCENARIOS[0], (Fault(LATE, "a->b x", kind=BURST), Fault("lose", "a->b x", kind=BURST))),
        Case(RACES[0], id="R1"),
    ]
    done = {what for case in some for what in shown._done(case)}
    assert len(done) == 8 and done <= set(USUAL)
    page, _, title = shown.PAGE.partition(", ")
    section = (ROOT / page).read_text("utf-8").partition(f"## {title}")[2].partition("\n## ")[0]
    section = re.sub(r"[*`]", "", " ".join(section.split()))
    for allowed in {words for case in some for words in case.allowed} | {"can be delayed"}:
        assert SENTENCES[allowed].rstrip(".") in section and allowed in SENTENCES[allowed]


def test_a_value_in_words_can_be_wrong_too() -> None:
    """An order that is acknowledged is paid. An amount that was not read is not called wrong."""
    assert Value("O", "not paid", "paid").sentence == "O is not paid, should be paid"
    assert str(Value("O", "not paid", "paid")) == "O not paid (should be paid)"
    assert [Value("O", *pair).wrong for pair in (("paid", "paid"), ("unread", 3), (1_000, 3), ("paid", None))] == [
        False, False, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_a_stored_report_fits_the_schema_and_its_page_says_all_of_it(path: Path) -> None:
    """Each step in its order, each wrong value in a sentence, who has done it, the rule, and the command."""
    told = stored(path.stem)
    SCHEMA.validate(told)
    text = words(told)
    for case in told["cases"]:
        at = text.index(f"case {case['id']}: ")
        for step in case["steps"]:
            said = " ".join(step["says"].replace("   ", ": ", 1).replace(" -> ", " → ").split())
            who = f"{step['by']} " if step["by"] else ""
            at = text.index(f"{who}{said}", at)
        for value in case["values"]:
            if value["should_be"] not in (None, value["is"]):
                assert f"is {value['is']} in the end, and should be {value['should_be']}." in text
        assert [cause["id"] for cause in case["causes"]] == case["rules"]
        for cause in case["causes"]:
            assert cause["rule"] in {CAUSES[cause["id"]].rule, LOST_IN_KILL.rule} and cause["rule"] in text
        assert [
            part for part in (*case["wrong"], *case["again"], *case["before"], case["left_out"]) if part not in text
        ] == []
        assert [each["sentence"] for each in case["allowed"] if each["sentence"] not in text] == []
        assert [
            line for each in case["log"] for line in each["lines"] if " ".join(line.split())[:150] not in text
        ] == []
    assert f"processes {', '.join(told['processes'])}" in text


def test_a_page_has_no_script_and_loads_nothing() -> None:
    """Links stay in the page. Each case has a place, and each colour a word."""
    for path in REPORTS:
        html = as_html(stored(path.stem))
        page = Page(html)
        assert all(link.startswith("#") and f"id='{link[1:]}'" in html for link in page.links)
        assert "url(" not in html and "@import" not in html and "default-src 'none'" in html
        for who in ("explorer", "shop"):
            assert len(re.findall(f"<tr class='{who}'", html)) == html.count(f"<b class='by'>{who}</b>")


def test_nothing_found_says_what_was_run_and_what_was_not() -> None:
    """By kind, with what was wrong once only."""
    SCHEMA.validate(NOTHING)
    text = words(NOTHING)
    for part in (
        "Nothing was found in what was explored.", "9 of 16 cases were run.", "lose711", "race25",
        "Wrong in some runs only, so not countedL1 (1 of 2 runs)", "Not exploredkills at writes",
        "3 second faults did not happen",
    ):  # fmt: skip
        assert part in text, part
    assert "FAIL" not in text


def test_what_comes_from_a_submission_is_short_and_no_markup() -> None:
    """Names of processes, messages, log lines and values of any content become short text."""
    told = deepcopy(stored("late"))

    def spoiled(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: spoiled(each) for name, each in value.items()}
        if isinstance(value, list):
            return [spoiled(each) for each in value]
        return NASTY * 300 if isinstance(value, str) and value not in keep else value

    case = told["cases"][0]
    keep = {"explorer", "shop", "", *(step["mark"] for step in case["steps"]), *(v["thing"] for v in case["values"])}
    keep |= {name for step in case["steps"] for name in (step["from"], step["to"])}
    html = as_html(spoiled(told))
    Page(html)
    assert "<script" not in html and "<img" not in html and "\x1b" not in html and "\u202e" not in html
    assert len(html) < 300_000


def test_the_files_are_whole_and_the_same_for_the_same_run(tmp_path: Path) -> None:
    """The page is drawn from the JSON alone, so it can be drawn again."""
    told = stored("late")
    assert write_explored(told, tmp_path / "a") == tmp_path / "a" / PAGE
    again = json.loads((tmp_path / "a" / JSON).read_text("utf-8"))
    assert again == told and as_html(again) == (tmp_path / "a" / PAGE).read_text("utf-8")
    assert {path.name for path in (tmp_path / "a").iterdir()} == {JSON, PAGE}


def told_of(*marks: str) -> Shown:
    """What a report says of a run with these steps."""
    steps = tuple(Step(f"step {number}", mark, at=number) for number, mark in enumerate(marks))
    values = (Value("stock of X", 18, 20, 20),)
    return Shown(
        "L1", "c", "lose", tuple(each.says for each in steps), (), {}, (503,), values, (), ("taken_times",), (), (1, 1),
        drawn=steps,
    )  # fmt: skip


class Once:
    """A system whose one run is given, with looks at some places of it."""

    def __init__(self, told: Shown, looks: list[tuple[int, int, str]], **other: Any) -> None:
        self.looks, self.pace = looks, None
        base = {
            "statuses": told.statuses, "violations": (SimpleNamespace(rule="taken_times"),), "steps": [*told.steps],
            "void": "", "reached": True, "others": frozenset(), "again": [], "events": [None] * len(told.steps),
            "world": SimpleNamespace(names={"7": "X"}),
        }  # fmt: skip
        self.result = SimpleNamespace(**base | other)

    def run(self, case: Case, seconds: float, still: float) -> Any:
        """Return the run."""
        return self.result


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks that are given by the system."""

    class Given(Looks):
        def __init__(self, system: Any) -> None:
            self.others = set()
            self.found = [
                (events, {(Kind.FIND_ITEM, "7"): stock}, {"stock": log}) for events, stock, log in system.looks
            ]

    monkeypatch.setattr(looks, "Looks", Given)
    monkeypatch.setattr(
        looks, "replace", lambda one, **new: one if type(one) is SimpleNamespace else replace(one, **new)
    )
    monkeypatch.setattr(
        looks, "drawn", lambda run: [SimpleNamespace(at=at, says=says) for at, says in enumerate(run.steps)]
    )


@pytest.mark.usefixtures("once")
def test_values_belong_to_the_last_step_before_a_look() -> None:
    """A step that the next one follows at once has none, but an answer without a receiver changes nothing."""
    told = told_of("message", "lost", "late", "unheard")
    seen: list[tuple[int, int, str]] = [(0, 20, "up\n"), (1, 20, "up\n"), (9, 18, "up\ntook 2 of /find/7\n")]
    found = looked(Case(SCENARIOS[0]), told, Once(told, seen), 1.0)  # type: ignore[arg-type]
    assert found.after == ({"stock of X": 20}, None, {"stock of X": 18}, {"stock of X": 18})
    assert [(each.after, each.process, each.lines) for each in found.log] == [(4, "stock", ("took 2 of /find/X",))]
    assert found.left_out == ""


@pytest.mark.usefixtures("once")
@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"statuses": (200,)}, "had other answers"),
        ({"violations": ()}, "broke other rules"),
        ({"reached": False}, "did not happen"),
        ({"void": "stock has exited"}, "did not happen"),
    ],
)
def test_values_of_another_run_that_differs_are_left_out(other: dict[str, Any], said: str) -> None:
    """With a sentence that says why, which the page shows."""
    told = told_of("message", "lost")
    found = looked(Case(SCENARIOS[0]), told, Once(told, [], **other), 1.0)  # type: ignore[arg-type]
    assert (found.after, found.log) == ((), ())
    assert found.left_out == f"{LEFT_OUT}, because another run of this case {said}."


@pytest.mark.usefixtures("once")
def test_values_are_left_out_from_the_step_that_is_another_one() -> None:
    """What was read before it belongs to the same steps."""
    told = told_of("message", "lost", "late")
    seen: list[tuple[int, int, str]] = [(0, 20, "up\n"), (1, 20, "up\n1\n"), (9, 18, "up\n1\n2\n")]
    other = Once(told, seen, steps=["step 0", "something else", "step 2"])
    found = looked(Case(SCENARIOS[0]), told, other, 1.0)  # type: ignore[arg-type]
    assert found.after == ({"stock of X": 20}, None, None)
    assert [(each.after, each.lines) for each in found.log] == [(1, ("1",))]
    assert found.left_out == f"{LEFT_OUT} from step 2 on: another run of this case had others."
