"""Every notebook keeps to the conventions and runs top to bottom, unattended and without noise.

It runs with the solution in its exercise; behind the check, the stub and wrong attempts go through it (tests/learner).
After its run, its questions are answered in the same kernel, as a reader does who runs all cells first, and by the
judge of page.js. The texts that are typed, and what each is, stand in tests/predictions.json: by notebook and question,
true for a right answer, false for a wrong one, and null for a text that is no answer. They are written by hand.
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import lesson_rules as rules
import nbformat
import pytest
from exercises import ATTEMPTS, exercises, solved
from judged import judged
from nbformat.v4 import new_code_cell
from notebook_run import ROOT, Ran, run
from own_files import brought

from sharedstate_lite.show.page import PAGE
from sharedstate_lite.show.written import NOT_WRITTEN

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

TYPED: dict[str, dict[str, dict[str, bool | None]]] = json.loads((ROOT / "tests/predictions.json").read_text("utf-8"))
ANSWERED = """
import json
from sharedstate_lite.show.answers import text_of
from sharedstate_lite.show.page.data import question_data
from sharedstate_lite.show.prediction import Prediction, predict

def whole(each, wrong):  # an explanation may be of one part
    return {**each.answer, **dict([wrong.rsplit(maxsplit=1)])} if isinstance(each.answer, dict) else wrong


asked = {name: value for name, value in [*globals().items()] if isinstance(value, Prediction)}
print(json.dumps([
    {name: {text: asked[name].judge(text) for text in texts} for name, texts in json.loads(%r).items()},
    {name: predict(each).html() for name, each in asked.items()},
    {name: [each.why(text_of(whole(each, wrong))) for wrong in each.whys] for name, each in asked.items()},
    {name: list(each.whys.values()) for name, each in asked.items()},
    {name: question_data(each) for name, each in asked.items()},
]))
"""
"""A cell that answers all questions of a notebook, and shows each again."""


def read(path: Path) -> Any:
    """The notebook in a file, valid by nbformat's own schema."""
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    return notebook


def test_there_are_notebooks() -> None:
    """The folder of notebooks is where it is looked for, and 00 is in it."""
    assert [p.name for p in NOTEBOOKS][:1] == ["00-start-here.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_conventions(path: Path) -> None:
    """A notebook keeps to the conventions."""
    notebook = read(path)
    assert [said for check in rules.CHECKS for said in check(notebook, path)] == []


def test_what_is_needed_twice_lives_in_the_library() -> None:
    """No function of more than four lines stands in two notebooks."""
    assert rules.identical({p.name: read(p) for p in NOTEBOOKS}) == []


def test_pictures_of_messages_and_limits_stay() -> None:
    """03b, 14 and 18 draw messages over time. All notebooks but 11 and 12 say where they simplify."""
    texts = {rules.number(p): "\n".join(cell.source for cell in read(p).cells) for p in NOTEBOOKS}
    assert all("show.space_time(" in texts[name] for name in ("03b", "14", "18"))
    assert {name for name, text in texts.items() if "## Where the simplification ends" not in text} == {"11", "12"}


MOST_WORDS = {
    "00": 1532,
    "01": 1604,
    "02": 1789,
    "02b": 1177,
    "03": 1624,
    "03b": 1486,
    "04": 1715,
    "05": 1120,
    "05b": 600,
    "06": 1011,
    "07": 871,
    "08": 1065,
    "09": 1037,
    "10": 1150,
    "11": 1868,
    "12": 1620,
    "13": 2020,
    "14": 1697,
    "14b": 1596,
    "15": 1933,
    "16": 1305,
    "16b": 1304,
    "17": 2331,
    "18": 2191,
    "19": 1942,
}
"""The most words that a page shows before anything is unfolded. A page that needs another sentence gives one up."""


def test_pages_do_not_grow() -> None:
    """No page shows more words than it may."""
    shown = {rules.number(p): rules.visible_words(read(p)) for p in NOTEBOOKS}
    assert shown.keys() == MOST_WORDS.keys()
    assert {name: words for name, words in shown.items() if words > MOST_WORDS[name]} == {}


def questions(notebook: Any) -> dict[str, Any]:
    """The cell of each question, by the question's name."""
    asked = {}
    for cell in rules.code(notebook):
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "show.predict":
                asked[ast.unparse(node.args[0])] = cell
    return asked


def test_each_question_is_answered() -> None:
    """At least two texts are typed for each of at least 81 questions, and at least 40 texts are no answers."""
    asked = {p.stem: {*questions(read(p))} for p in NOTEBOOKS}
    assert {name: {*each} for name, each in TYPED.items()} == asked
    texts = [texts for each in TYPED.values() for texts in each.values()]
    assert len(texts) >= 81 and all(len(each) > 1 and True in each.values() for each in texts)
    verdicts = [verdict for each in texts for verdict in each.values()]
    assert verdicts.count(None) >= 40


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_runs_without_noise(path: Path, tmp_path: Path) -> None:
    """A notebook runs from an empty kernel to its end without an error or a warning, with its exercise solved.

    The check says so, and says of the stub that it is not written, and of each wrong attempt what is wrong. After the
    run, each text that is typed gets its verdict, and each question is shown with the same answer and the same
    explanations as when its cell ran. Two files of a learner go through 04.
    """
    notebook = read(path)
    tries = solved(notebook, ATTEMPTS.get(path.stem, []))
    own = brought(notebook, tmp_path) if rules.number(path) == "04" else {}
    notebook.cells.append(new_code_cell(ANSWERED % json.dumps(TYPED[path.stem])))
    ran = run(notebook)
    answered = notebook.cells.pop()
    assert ran == Ran("", [], "")
    assert list(crooked(notebook)) == []
    assert mounted(notebook) == {kind: called(notebook, name) for kind, name in MOUNTED.items()}
    assert [said[0] for said in checked(notebook)] == ["✓"] * len(tries)
    for cell in tries:
        assert json.loads(cell.outputs[0].text) == [NOT_WRITTEN, *(wrong["says"] for wrong in ATTEMPTS[path.stem])]
    assert all(value in cell.outputs[0].data["text/html"] for value, cell in own.items())
    told, html, explained, whys, data = json.loads(answered.outputs[0].text)
    if os.environ.get("SCALE", "small") == "small":  # other sizes have other answers
        assert told == TYPED[path.stem]
    assert html == {name: cell.outputs[0].data["text/html"] for name, cell in questions(notebook).items()}
    assert explained == whys
    by_page = judged((data[name], [*texts]) for name, texts in told.items())
    assert [{text: right for text, (right, _) in each.items()} for each in by_page] == [*told.values()]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_runs_as_delivered(path: Path) -> None:
    """A notebook runs with the stub in its exercise."""
    notebook = read(path)
    assert run(notebook) == Ran("", [], "")
    assert checked(notebook) == [NOT_WRITTEN] * len(exercises(notebook))


def checked(notebook: Any) -> list[str]:
    """What the checks of the exercises say."""
    cells = [cell for cell in rules.code(notebook) if "check-it" in rules.tags(cell)]
    return [cell.outputs[-1].data["text/plain"] for cell in cells]


def crooked(notebook: Any) -> Iterator[str]:
    """Cells that show a table of texts as pandas does, on the right."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            html = "".join(output.get("data", {}).get("text/html", ""))
            if 'class="dataframe"' in html and re.search(r"<td>[^<\d.−-]", html) and "ssl-text" not in html:
                yield f"{rules.name(cell)}: show.tables() comes first"


MOUNTED = {"prediction": "show.predict", "stepper": "show.stepper", "graph": "show.graph"}
"""What the page's script mounts, and the function that displays it."""


def called(notebook: Any, name: str) -> int:
    """How many cells of a notebook call a function."""
    return sum(f"{name}(" in cell.source for cell in rules.code(notebook))


def mounted(notebook: Any) -> dict[str, int]:
    """How many outputs of a notebook the page's script mounts, by kind."""
    found = dict.fromkeys(MOUNTED, 0)
    for output in (each for cell in notebook.cells for each in cell.get("outputs", [])):
        if PAGE in output.get("data", {}):
            found[output["data"][PAGE]["kind"]] += 1
    return found


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_every_cell_may_be_run_again(path: Path) -> None:
    """A notebook in which each cell is run twice in a row runs as well: nobody breaks anything by a second click."""
    notebook = read(path)
    again = deepcopy(notebook.cells)
    for cell in again:
        cell["id"] += "-again"
    notebook.cells = [cell for pair in zip(notebook.cells, again, strict=True) for cell in pair]
    assert run(notebook).error == ""


@pytest.mark.slow
def test_the_first_notebook_may_be_run_in_any_order() -> None:
    """As notebook 00 says, each of its cells may be run again: after all the others too, from the last to the first."""
    notebook = read(NOTEBOOKS[0])
    again = deepcopy(notebook.cells[::-1])
    for cell in again:
        cell["id"] += "-again"
    notebook.cells += again
    assert run(notebook).error == ""
