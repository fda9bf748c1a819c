"""Break it in lab 6: a student's cases against wrong shops, on a student's machine and in a class."""

from __future__ import annotations

import csv
import json
import os
import shutil
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from systems import CHECKOUT, plant

from grader.__main__ import main
from grader.classroom import breaking as classroom
from grader.classroom.shops import Shops
from grader.errors import VoidError
from grader.explore import breaking
from grader.explore.breaking import histories, told, written
from grader.explore.cases import RACES, SCENARIOS, WRITE, Case, Fault, Swap, kills, losses, second, writes
from grader.explore.connection import Event
from grader.explore.cutter import ANSWER, REQUEST
from grader.lab.breaking import read_broken
from grader.lab.cover import cover
from grader.lab.handout import hand_out
from grader.lab.reading import NoHistoryError, Piece
from grader.lab.regions import MasterError
from grader.lab.shops import MOST, Shop, read_master, texts

ABOUT, SHOPS = read_master(CHECKOUT)
CASES = [shop.case for shop in SHOPS]
TAKE = ("client->order POST /checkout/O", "order->stock POST /take/#", "stock->order 200", "order->client 200")
SUBTRACT = (
    "client->order POST /checkout/O",
    "order->stock POST /subtract/X/2",
    "stock->order 200",
    "order->client 200",
)
LATE, LOST = "payable, late order->stock POST /take, 1st", "payable, lose stock->order 200, 1st"


@pytest.fixture(scope="module")
def handed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is given out for lab 6."""
    out = tmp_path_factory.mktemp("lab6") / "out"
    hand_out(CHECKOUT, out)
    return out


class Fake:
    """An explorer of a shop with a few messages. A case is its text, and is wrong in the shops that ``wrong`` lists."""

    wrong: dict[str, tuple[str, ...]] = {}
    missed: tuple[str, ...] = ()
    started: list[str] = []

    def __init__(self, name: str) -> None:
        self.name = name
        self.has = (LOST, *(() if name == "shop-1" else (LATE,)))
        self.started.append(name)

    def find(self, text: str) -> str | None:
        """The case, if the shop has it."""
        return text if text in self.has else None

    def messages(self, scenario: str) -> tuple[str, ...]:
        """The messages of each scenario."""
        return SUBTRACT if self.name == "shop-1" else TAKE

    def run(self, case: str) -> Any:
        """A run of a case."""
        if self.name in self.missed:
            return None
        return SimpleNamespace(violations=(1,) * (self.name in self.wrong.get(case, ())))


@pytest.fixture
def shops(monkeypatch: pytest.MonkeyPatch) -> type[Fake]:
    """Shops that need no processes."""

    @contextmanager
    def exploring(folder: Path) -> Iterator[Fake]:
        yield Fake(folder.name)

    monkeypatch.setattr(breaking, "_exploring", exploring)
    for name, value in (("wrong", {}), ("missed", ()), ("started", [])):
        monkeypatch.setattr(Fake, name, value)
    return Fake


@pytest.fixture
def ran(handed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, list[str]]]:
    """Runs `break` on lines; returns its exit status and what it prints, without progress."""

    def run(*lines: str, words: tuple[str, ...] = ()) -> tuple[int, list[str]]:
        (tmp_path / "break").mkdir(exist_ok=True)
        (tmp_path / "break" / "break.json").write_text((handed / "break" / "break.json").read_text())
        (tmp_path / "break" / "histories.txt").write_text("\n".join(lines))
        capsys.readouterr()
        status = main(["break", str(tmp_path), *words])
        return status, capsys.readouterr().out.splitlines()

    return run


@pytest.mark.parametrize(("line", "column", "why"), [
    ("payble, lose stock->order 200, 1st", 1, "'payble' is no scenario; the scenarios are: payable; no credit"),
    ("L5", 1, "'L5' is no scenario"),
    ("payable", 1, "nothing happens in it; write what"),
    ("payable,", 9, "'' cannot happen; write one of these and a message: lose, late, silence"),
    ("payable, loose stock->order 200, 1st", 10, "'loose stock->order 200' cannot happen"),
    ("payable, kill order stock->order 200, 1st", 10, "'kill order stock->order 200' cannot happen"),
    ("payable, lose stock-order 200, 1st", 15, "a message is written as explore prints it, for example order->stock"),
    ("payable, lose stock->order 200", 10, "after a message comes which of those with the same words it is"),
    ("payable, lose stock->order 200, first", 33, "after a message comes which of those with the same words it is"),
    ("payable, at step 2 deliver stock->order 200, 1st", 10, "'at step 2 deliver stock->order 200' cannot happen"),
    ("the same order twice, lose stock->order 200, 1st", 23, 'in a race, messages change places: write "at step 2'),
    ("payable" + " " * 400, 401, "a history has at most 400 letters"),
])  # fmt: skip
def test_what_is_no_case(line: str, column: int, why: str) -> None:
    """It is refused with the column, the rule, and the names that exist, before any shop is started."""
    with pytest.raises(NoHistoryError) as refused:
        written(Piece(line))
    assert str(refused.value).startswith(why)
    assert refused.value.at + 1 == column


@given(st.lists(st.sampled_from([*TAKE, "payable", ", ", "lose ", "kill a+b at ", "1st", "at step 2 deliver ", "#"])))
def test_any_text_is_a_case_or_is_refused(parts: list[str]) -> None:
    """Any text is read as a case, or refused with a NoHistoryError."""
    try:
        written(Piece("".join(parts)))
    except NoHistoryError as none:
        assert 0 <= none.at <= len("".join(parts))


def test_what_explore_prints_is_read() -> None:
    """Each written form of a case, pasted with its id, is this case again; so is a line that a person types."""
    ask, taken = Event("", "order", "stock", kind=REQUEST), Event("", "stock", "order", kind=ANSWER)
    plain = [(Event("", "client", "order", kind=REQUEST), TAKE[0]), (ask, TAKE[1]), (taken, TAKE[2])]
    runs = [(scenario, plain) for scenario in SCENARIOS]
    first = [*losses(runs), *kills(runs, ["order", "stock"])]
    both = [
        Case(each.scenario, (*each.faults, fault), id="L1.2")
        for each in first
        for fault in second(each, plain, ["stock"])
    ]
    races = [
        Case(scenario, swaps=(Swap(2, TAKE[0]), Swap(4, TAKE[1], 2))[:count], id="R1.2")
        for scenario in RACES
        for count in (0, 1, 2)
    ]
    assert len(first) > 20 and len(both) > 10
    for case in (*first, *both, *races, *islice(writes(["order", "stock"]), 10)):
        (read,) = histories(f"  {case.id}: {case}  # a comment, with a comma")
        found = written(Piece(read.text))
        assert (found.text, len(found.parts)) == (str(case), len(case.faults) + len(case.swaps))
        for each, (what, names) in zip((*case.faults, *case.swaps), found.parts, strict=True):
            victims = each.victims if isinstance(each, Fault) else ()
            ends = () if case.kind == WRITE else tuple(each.at.split()[0].split("->"))
            assert (what == each.at or case.kind == WRITE) and names == (*victims, *ends)
    fault = Fault("late after silence", TAKE[1])
    assert written(Piece(f"no credit,{fault}".replace("silence ", "silence  "))).text == f"no credit, {fault}"


def test_what_histories_expose(shops: type[Fake], ran: Callable[..., tuple[int, list[str]]]) -> None:
    """Each line says what it exposes, or why not; a right shop that is wrong as well takes its exposures back."""
    shops.wrong = {LOST: ("shop-1", "shop-3", "shop-6", "embedded"), LATE: ("shop-2",)}
    status, said = ran("# mine", f"{LOST}   # money", LATE, "", "payable, late order->stok POST /take, 1st")
    assert status == 1
    caught = [f"  {number}  {SHOPS[number - 1].says}" for number in (1, 2, 3)]
    assert said == [
        "line 2: payable, lose stock->order 200, 1st",
        "    exposes 1, 3; read as a history of shop 1, shop 2, shop 3, shop 4, shop 5,",
        "         shop 6",
        "line 3: payable, late order->stock POST /take, 1st",
        "    exposes 2; read as a history of shop 2, shop 3, shop 4, shop 5, shop 6",
        "line 5: payable, late order->stok POST /take, 1st",
        "    column 15: no shop has a process 'stok'; they are client, order and stock",
        "exposed: 3 of 6",
        *(line for one in caught for line in textwrap.wrap(one, 78, subsequent_indent=" " * 5)),
        "at large: 3",
        "  race (two requests at once): 4",
        "  kill (a process is killed): 5, 6",
        "changes: 2; the shortest set known that exposes all 6 has 5; a bonus of 10 % with at most 7",
    ]
    assert shops.started == [*(f"shop-{n}" for n in range(1, 7)), "embedded", "saga"]
    status, text = ran(LOST, words=("--json",))
    found = json.loads("\n".join(text))
    assert (found["exposed"], found["at_large"], found["changes"]) == ([1, 3], [2, 4, 5, 6], 1)


def test_all_exposed(shops: type[Fake], ran: Callable[..., tuple[int, list[str]]]) -> None:
    """The exit status is 0."""
    shops.wrong = {LOST: tuple(f"shop-{n}" for n in range(1, 7))}
    assert ran(LOST)[0] == 0


@pytest.mark.parametrize(("line", "at", "why"), [
    ("payable, lose stock->order 400, 1st", 15, "no shop has this message. In 'payable', there are in shop 1: "
     f"{', '.join(SUBTRACT)}; shops 2, 3, 4, 5 and 6: {', '.join(TAKE)}"),
    ("payable, lose stock->order 200, 7th", 15, "the messages of no shop allow this case. In 'payable', there are in"),
    ("payable, kill stok at stock->order 200, 1st", 23, "no shop has a process 'stok'; they are client, order"),
    ("the same order twice, at step 2 deliver client->shop GET /x, 1st", 41, "no shop has a process 'shop'; they are"),
])  # fmt: skip
def test_a_case_that_no_shop_has(shops: type[Fake], handed: Path, line: str, at: int, why: str) -> None:
    """The message is named that is the reason, and those that each shop has."""
    (one,) = told(read_broken(handed / "break" / "break.json"), handed / "break", line)
    assert one.word.startswith(why)
    assert one.at == (1, at)


def test_what_does_not_count(shops: type[Fake], handed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A case that does not happen, one in which the right shop is wrong, one too many, and one that is too late."""
    broken, folder = read_broken(handed / "break" / "break.json"), handed / "break"
    shops.missed, shops.wrong = tuple(f"shop-{n}" for n in range(1, 7)), {}
    (one,) = told(broken, folder, LATE)
    assert one.waited and one.word == "it did not happen in 3 tries in shops 2, 3, 4, 5 and 6: try it again"
    shops.missed, shops.wrong = (), {LATE: ("shop-2", "saga")}
    (one,) = told(broken, folder, LATE)
    assert one.waited and one.blamed and one.word.startswith("the right shop is wrong for as long")
    assert (one.exposes, one.changes) == ((), 0)
    *_, last = told(broken, folder, "\n".join([LOST] * (MOST + 1)))
    assert (last.line, last.word) == (MOST + 1, f"only the first {MOST} histories count")
    monkeypatch.setattr(breaking, "SECONDS", -1.0)
    (one,) = told(broken, folder, LATE)
    assert one.waited and one.word == "the time for all histories is used up"


def files(folder: Path) -> dict[str, str]:
    """The texts in a folder, by their paths."""
    there = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_text() for path in there}


def test_what_is_given_out(handed: Path) -> None:
    """Six shops with all files of their systems, no case and no change; the same master gives the same bytes."""
    given, folders = files(handed / "break"), {f"shop-{number}" for number in range(1, 7)}
    assert {name.split("/")[0] for name in given} == folders | {"README.md", "break.json", "histories.txt"}
    assert not histories(given["histories.txt"])
    whole = "".join(text for name, text in given.items() if "/" not in name)
    assert not [shop.name for shop in SHOPS if shop.case in whole or (shop.change and shop.name in whole)]
    broken = read_broken(handed / "break" / "break.json")
    assert [wrong.parts for wrong in broken.wrong] == [[], *[["saga"]] * 4, ["embedded"]]
    for number, shop in enumerate(SHOPS, 1):
        right = files(CHECKOUT / shop.base)
        mine = {name: given[f"shop-{number}/{name}"] for name in right}
        assert {name for name in right if mine[name] != right[name]} == {change["file"] for change in shop.change}
    with pytest.raises(MasterError, match="must contain its text exactly once"):
        texts(
            CHECKOUT, Shop("x", "start", "lose", "", "", [{"file": "service.py", "right": "no such text", "wrong": ""}])
        )


@pytest.mark.parametrize(("break_it", "why"), [
    (lambda folder: (folder / "break.json").unlink(), "break.json is missing; take the folder break/ from"),
    (lambda folder: (folder / "shop-1" / "checkout.toml").unlink(), "shop-1 is no shop"),
])  # fmt: skip
def test_a_damaged_folder(
    handed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], break_it: Callable[[Path], None], why: str
) -> None:
    """It is named, with what to do."""
    shutil.copytree(handed / "break", tmp_path / "break")
    (tmp_path / "break" / "histories.txt").write_text(LOST)
    break_it(tmp_path / "break")
    assert main(["break", str(tmp_path)]) == 64
    assert why in capsys.readouterr().err


def test_a_class_of_texts_that_are_no_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lab 6 has a gradebook for `--break`, without a shop being started for what is no case. It goes on."""
    for id, text in (("s1", "payable"), ("s2", ""), ("s3", "x" * 70_000)):
        (tmp_path / "subs" / id).mkdir(parents=True)
        (tmp_path / "subs" / id / "histories.txt").write_text(text)
    words = ["class", str(tmp_path / "subs"), "--lab", "6", "--out", str(tmp_path / "out"), "--break"]
    for _ in range(2):
        assert main(words) == 1
        rows = {row["id"]: row for row in csv.DictReader((tmp_path / "out" / "gradebook.csv").read_text().splitlines())}
        assert {id: (row["status"], row["score"], row["of"]) for id, row in rows.items()} == {
            "s1": ("graded", "0", "6.6"), "s2": ("graded", "0", "6.6"), "s3": ("unreadable", "", "6.6"),
        }  # fmt: skip
        said = capsys.readouterr().err
    assert "to grade" not in said
    page = (tmp_path / "out" / "submissions" / "s1" / "feedback.html").read_text()
    assert "nothing happens in it" in page and not any(shop.says in page for shop in SHOPS)
    assert SHOPS[5].says in (tmp_path / "out" / "class.html").read_text().replace("&#x27;", "'")
    assert (tmp_path / "out" / "sources" / "s1" / "histories.txt").read_text() == "payable"
    assert main([*words, "--quick"]) == 64 and "leave one out" in capsys.readouterr().err
    assert main([*words, "--jobs", "2"]) == 64 and "one at a time" in capsys.readouterr().err


@pytest.mark.parametrize("error", [None, VoidError("shop-1 does not run on this machine"), KeyboardInterrupt()])
def test_a_submission_of_a_class(
    shops: type[Fake], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException | None
) -> None:
    """Its result has a check for each shop; it is void if a shop does not run; a signal leaves no result."""
    (tmp_path / "histories.txt").write_text(f"{LOST}\n{LATE}  # stock")
    shops.wrong = {LOST: ("shop-1", "shop-4"), LATE: ("shop-2",)}
    scratch, place = tmp_path / "scratch", tmp_path / "place"
    scratch.mkdir()
    place.mkdir()
    one: Any = SimpleNamespace(id="s1", files=[("histories.txt", tmp_path / "histories.txt")])
    work = Shops()
    task = work.task(
        one, {"submission": "s", "bundle": work.hash, "grader": "g"}, work.tier(scratch, False, ())[0], scratch, place
    )
    if error:
        monkeypatch.setattr(Fake, "find", lambda *_: (_ for _ in ()).throw(error))
    if isinstance(error, KeyboardInterrupt):
        with pytest.raises(SystemExit):
            classroom.judge(task, place)
        return
    found = classroom.judge(task, place)
    if error:
        assert (found["status"], found["why"]) == ("void", str(error))
        return
    outcomes = {check["check"]: check["outcome"] for check in found["checks"]}
    assert found["status"] == "graded" and list(outcomes) == list(work.points)
    assert [name for name, outcome in outcomes.items() if outcome == "exposed"] == ["1 lose", "2 lose", "4 race"]
    assert found["checks"][-1]["share"] == "0.5"


@pytest.fixture
def planted(handed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A student's folder with shops that find their gunicorn in every environment; so do the right ones."""
    for number, shop in enumerate(SHOPS, 1):
        plant(shop.name, tmp_path / "break" / f"shop-{number}")
    for name in ("saga", "embedded"):
        plant(name, tmp_path / "right" / name)
    monkeypatch.setattr(breaking, "RIGHT", tmp_path / "right")
    (tmp_path / "break" / "break.json").write_text((handed / "break" / "break.json").read_text())
    return tmp_path


def test_a_case_is_run_in_a_shop_and_in_the_right_one(planted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Alone with shop 2: its case exposes it, and the right shop is not wrong. A case of another shop is named."""
    about = json.loads((planted / "break" / "break.json").read_text())
    about["wrong"] = about["wrong"][1:2]
    (planted / "break" / "break.json").write_text(json.dumps(about))
    (planted / "break" / "histories.txt").write_text(f"{CASES[1]}\n{CASES[0]}\n")
    assert main(["break", str(planted)]) == 0
    said = capsys.readouterr()
    assert "    exposes 1; read as a history of shop 1\n" in said.out
    assert "shop 1: client->order POST /checkout/O, order->stock POST /take/#, stock->order 200, " in " ".join(
        said.out.split()
    )
    assert said.err.splitlines() == ["shop 1 of 1", "what is wrong, in the right shop"]


@pytest.mark.slow
def test_each_shop_is_exposed_by_its_own_case(planted: Path) -> None:
    """No right shop is wrong, and the cover of what the cases expose has as many changes as break.toml says.

    With -s, it prints what a submission with a case for each shop costs.
    """
    began, before = time.monotonic(), os.times()
    found = told(read_broken(planted / "break" / "break.json"), planted / "break", "\n".join(CASES))
    cpu = sum(os.times()[:4]) - sum(before[:4])
    print(f"{len(CASES)} histories: {time.monotonic() - began:.0f} s, {cpu:.0f} s of CPU time")
    for number, one in enumerate(found, 1):
        assert number in one.exposes and not one.blamed, one
    exposes = {one.text: frozenset(one.exposes) for one in found}
    assert len(cover(exposes, len(CASES))) == ABOUT["known"], exposes
