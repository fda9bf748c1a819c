"""The readers of labs 1 to 3: what they read, what they refuse, and that they raise nothing else."""

from __future__ import annotations

import inspect
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from in_process import Here

from grader.__main__ import main
from grader.lab import Case
from grader.lab.breaking import read_reader
from grader.lab.checks import jsonable, load
from grader.lab.judge import ask
from grader.lab.reading import NoHistoryError, Piece, Reader
from grader.outcomes import Outcome
from grader.worker import Student, same

ROOT = Path(__file__).resolve().parents[2]
LABS = [next((ROOT / "labs").glob(f"{number}-*")) for number in (1, 2, 3)]


@cache
def reader_of(lab: Path) -> Reader:
    """The reader of a lab's checks.py."""
    found = read_reader(lab / "checks.py")
    assert found is not None
    return found


@cache
def right_of(lab: Path) -> Student:
    """The solution of a lab, in this process."""
    return Student(Here((lab / "solution.py").read_text()))


def read(lab: Path, line: str) -> Case:
    """The case of a line, for the solution. Raises NoHistoryError."""
    return reader_of(lab)(Piece(line), right_of(lab))(right_of(lab))


def like(case: Case) -> Any:
    """The right answer of a case, as it is compared."""
    return jsonable(case.shape.like(jsonable(case.right)))


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_every_printed_trace_is_read_back(lab: Path) -> None:
    """The trace of each visible check gives a case with the same trace and the same right answer.

    The checks of lab 3 have the right answers by hand, and the reader has those of the solution.
    """
    traces = set()
    for check in [one for one in load(lab / "checks.py") if not one.hidden]:
        for case in check.cases(right_of(lab)):
            if case.trace not in traces:
                traces.add(case.trace)
                again = read(lab, case.trace)
                assert (again.trace, like(again)) == (case.trace, like(case)), check.id
    assert len(traces) > 700


NONE = [
    (1, "+Fruit 1 | -Fruit 2", 12, "a deletion of what is not there"),
    (1, "+Fruit 1 | -Fruit 1, -Fruit 1 | +Fruit 1", 22, "a deletion of what is not there"),
    (1, "-visit", 1, "a deletion of what is not there"),
    (1, "+info | +Fruit 1", 10, "a row of Join is one of info, second info, visit, second visit, other visit"),
    (1, "+Fruit 1 | Fruit 2", 12, 'a change begins with + or -; write "nothing" for an epoch without changes'),
    (1, "+Fruit 1,, -Fruit 1", 10, 'a change is missing here; write "nothing" for an epoch without changes'),
    (1, "+Fruit 1 || +Fruit 2", 11, "a change is missing here"),
    (1, "+Fruit 1 |", 11, "a change is missing here"),
    (2, "+info Nut Fruit || +visit Nut 5", 18, "a change is missing here"),
    (1, "+Fruit 1 | +Fruit 1.5", 13, "a row of Max is a key and a value, such as Fruit 1"),
    (1, "+Fruit 1 | restart | +Fruit 2 | +Fruit 3", 12, "a change begins with +"),
    (1, "restart | +Fruit 2", 1, "there is no epoch before it"),
    (1, "save, number of entries", 1, "there is no epoch before it"),
    (2, "+Nut 5 | -Nut 7 | since", 10, "a deletion of what is not there"),
    (2, "+Nut 5", 1, "the last step must be at(...), since, upper, save(), or a call that must be refused"),
    (2, "+Nut 5 | handle(1)", 10, "the last step must be at(...)"),
    (2, "+Nut 5 | a = handle(0) | since", 10, "this call must be refused, so it can only be the last"),
    (2, "+Nut 5 | close(a) | since", 16, "there is no such open handle"),
    (2, "a = handle(0) | a = handle(0) | since", 17, "a is open already"),
    (2, "+Nut 5 | handle(1) | since", 10, "write a handle as a = handle(0)"),
    (2, '+Nut 5 | at("Nut") | since', 10, "this must be the last step"),
    (2, "compact() | save()", 1, "compact() is not called before the first insert"),
    (2, "+info Nut 5 Fruit", 2, "a row of a table is such as info Nut Fruit"),
    (2, "+info Nut Fruit | restart | +visit Nut 5 | +price Nut 5", 1, "restart must stand between all epochs"),
    (2, "-price Nut 60", 1, "a deletion of what is not there"),
    (3, "Table: write Nut +1 | Table: write Nut -1 | Table: write Nut -1", 52, "a deletion of what is not there"),
    (3, "Count: question Nut | Count: answer Nut 0 | Count: change Nut -1", 52, "a deletion of what is not there"),
    (3, "Max: question Nut | Max: answer Nut [2] | Max: change Nut 1 -1", 48, "a deletion of what is not there"),
    (3, "Count: answer Nut 2", 8, "an answer without a question"),
    (
        3,
        "Union: question Nut | Union: answer left Nut 2 | Union: answer left Nut 2",
        57,
        "an answer without a question",
    ),
    (3, "Count: question Nut | Count: answer Nut -1", 30, "there are never fewer than 0 rows"),
    (3, "Table: question Nut 1", 8, "there were never 1 rows"),
    (3, "Count: change Nut +2", 8, "one row is inserted (+1) or deleted (-1)"),
    (3, "Max: answer Nut 2", 6, "write a call of Max such as"),
    (3, "Union: evict middle Nut", 8, "write a call of Union such as"),
    (3, "view: read Nut | Table: write Nut -1", 25, "a deletion of what is not there"),
    (3, "view: read Nut | Max: evict Nut | Count: evict Nut", 1, "no graph of this lab has Count, Max, view together"),
    (3, "Count question Nut", 1, "write who is called, and how"),
]


@pytest.mark.parametrize(("number", "line", "column", "why"), NONE)
def test_what_is_no_history(number: int, line: str, column: int, why: str) -> None:
    """A line that is no history is refused, with the reason and the place."""
    with pytest.raises(NoHistoryError) as none:
        read(LABS[number - 1], line)
    assert (none.value.at + 1, str(none.value)[: len(why)]) == (column, why)


def test_the_histories_that_a_reader_documents() -> None:
    """Each line with an example in the docstring of a reader is read, and means what its trace says."""
    for lab, many in zip(LABS, (2, 2, 0), strict=True):
        lines = re.findall(r"^(\S.*?) {4,}\S", inspect.cleandoc(reader_of(lab).__doc__ or ""), re.M)
        assert len(lines) == many
        for line in lines:
            case = read(lab, line)
            assert case.trace == line and ask(case, right_of(lab)).outcome == Outcome.PASS


ROW = st.tuples(st.sampled_from(["Fruit", "Nut"]), st.integers(-2, 2))
EPOCHS = st.lists(st.lists(st.tuples(ROW, st.sampled_from([1, -1])), max_size=3), min_size=1, max_size=4)


@given(EPOCHS)
def test_a_history_of_lab_1_is_read_as_it_is_meant(epochs: list[list[tuple[tuple[str, int], int]]]) -> None:
    """A drawn history is refused only if an epoch ends with fewer than 0 of a row. The right answer is MAX."""
    shown = " | ".join(", ".join(f"{'+-'[diff < 0]}{key} {n}" for (key, n), diff in e) or "nothing" for e in epochs)
    there, largest, possible = Counter[tuple[str, int]](), dict[str, int](), True
    for epoch in epochs:
        for row, diff in epoch:
            there[row] += diff
        possible &= min(there.values(), default=0) >= 0
    if not possible:
        with pytest.raises(NoHistoryError, match="a deletion of what is not there"):
            read(LABS[0], shown)
        return
    case = read(LABS[0], shown)
    assert case.trace == shown
    for told in case.right:
        for kind, (key, value) in told:
            largest[key] = value
            if kind in ("-D", "-U"):
                del largest[key]
    assert largest == {key: max(n for (other, n), many in there.items() if other == key and many)
                       for (key, _), many in there.items() if many}  # fmt: skip
    assert ask(case, right_of(LABS[0])).outcome == Outcome.PASS


WORDS = st.sampled_from(
    [
        *("+", "-", "|", ",", "(", ")", "[", "]", "=", ":", '"', " ", "a", "b", "0", "1", "-1", "99999999", "nothing"),
        *(
            "Fruit",
            "Nut",
            "info",
            "visit",
            "price",
            "second",
            "restart",
            "save",
            "save, number of entries",
            "...",
            "\0",
        ),
        *("at", "handle", "advance", "close", "compact()", "since", "upper", "save()", "ValueError", "epochs"),
        *("Table", "Count", "Max", "Union", "view", "left", "read", "write", "question", "answer", "change", "evict"),
        *(" | ", "Count: question Nut", "Max: answer Nut [2, 1]", "a = handle(0)", "+Nut 5", "+info", "\u0661", "é"),
    ]
)


@given(st.integers(0, 2), st.lists(WORDS, max_size=12).map("".join) | st.text(max_size=30))
def test_any_text_is_a_history_or_is_refused(number: int, line: str) -> None:
    """A reader raises nothing but NoHistoryError, at a place in the line, and the solution answers what it reads."""
    lab = LABS[number]
    try:
        case = read(lab, line)
    except NoHistoryError as none:
        assert 0 <= none.at <= len(line)
        return
    assert ask(case, right_of(lab)).outcome == Outcome.PASS, line


def test_what_a_race_prints_with_wrong_code_is_read() -> None:
    """In lab 3, messages of the trace that the right code does not send are left out: the view is right in the end."""
    lab, line = LABS[2], "view: read Nut | Count: question Nut | Table: question Nut 0 | Table: question Nut 0"
    for more in ("", " | Count: answer Nut 7 | Count: answer Nut 7 | ..."):
        case = read(lab, line + more)
        assert same(like(case), [["Nut", 0]]) and ask(case, right_of(lab)).outcome == Outcome.PASS
    twice = (
        (lab / "solution.py").read_text().replace("        self.asked.add(key)\n        return [", "        return [")
    )
    assert ask(read(lab, line), Student(Here(twice))).outcome == Outcome.PASS


@pytest.mark.slow
@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_each_wrong_solution_can_be_exposed(lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All wrong solutions of the lab are exposed by the set that the build has found, with as many changes as it says.

    python -m pytest -n 0 -s -m slow tests/labs/test_labs_break.py
    """
    out = tmp_path / "out"
    assert main(["lab", "build", str(lab), "--out", str(out)]) == 0
    broken = json.loads((out / "bundle" / "break.json").read_text())
    (out / "break").rename(out / "student" / "break")
    (out / "student" / "break" / "histories.txt").write_text("\n".join(broken["set"]))
    capsys.readouterr()
    assert main(["break", str(out / "student")]) == 0
    said = capsys.readouterr().out
    wrong = len(re.findall(r"^\[", (lab / "mutants.toml").read_text(), re.M))
    assert len(broken["wrong"]) == wrong and f"exposed: {wrong} of {wrong}\n" in said
    assert f"changes: {broken['known']}; the shortest set known" in said
    if lab == LABS[0]:
        as_documented(out / "student", capsys)
    with capsys.disabled():
        print(f"\n{lab.name}: {wrong} wrong solutions, {len(broken['set'])} histories, {broken['known']} changes")


def as_documented(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The histories in docs/labs.md give what is below them, but for lines that are left out (...)."""
    section = (ROOT / "docs" / "labs.md").read_text().partition("### Break it")[2].partition("\n| ")[0]
    given, shown = (re.findall(r"^    (.*)$", block, re.M) for block in re.findall(r"(?:^    .*\n)+", section, re.M))
    (copy / "break" / "histories.txt").write_text("\n".join(given))
    assert main(["break", str(copy)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert [line for line in shown if line != "..."] == [line for line in said if line in shown]
