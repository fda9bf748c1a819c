"""A page of the site in Chromium, from a folder: predictions are answered, charts drawn, and nothing is lost without.

SHOTS=/some/folder keeps pictures of the page.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from sharedstate_lite import show
from sharedstate_lite.show.palette import DARK, LIGHT
from website import plotly, publish

HERE = Path(__file__).resolve().parent
WHYS = {7: "The join does not store its rows again.", "right": "Nine in the tables, five in MAX and two in the answer."}
NAMES = ("visit", "JOIN", "joined", "answer")
QUESTIONS = [
    show.question("How many rows of working state are there?", 16, WHYS),
    show.question("Which operator stores nothing?", "JOIN", {"visit": "It is a table."}, choices=NAMES),
    show.question("Which of these store something?", {"visit", "joined"}, choices=NAMES),
    show.question("What does the view emit?", [("-U", "Fruit", 40), ("+U", "Fruit", 20)], tolerance=1),
    show.question("About how many rows are held?", 2_000, tolerance=2),
]
POINTS: dict[str, dict[float, float]] = {"full": {1: 16, 2: 29, 8: 117}, "shared": {1: 16, 2: 20, 8: 63}}
CHARTS = [
    show.rows_chart(POINTS, "views", title="Rows of working state, in one process and for up to eight views"),
    show.rungs_chart({"a view in a process of its own": 12.0, "one process": 0.5}, "ms", "Time", {"Spark": "no Java"}),
    show.panels(POINTS, "epoch", "ms", "Latency of each epoch"),
    show.hits_chart({"one cache": {10: 0.1, 1000: 0.9}}),
]


def notebook(title: str, shown: list[tuple[str, Any]]) -> Any:
    """An executed notebook with these outputs."""
    cells = [new_markdown_cell(f"# {title}\n\n5 minutes · nothing")]
    for source, each in shown:
        if each is None:
            cells.append(new_markdown_cell(source))
            continue
        data = {"text/plain": each} if isinstance(each, str) else each._repr_mimebundle_()
        output = new_output("display_data", data=data)
        cells.append(new_code_cell(source, outputs=[output], metadata={"tags": []}))
    return new_notebook(cells=cells)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with a notebook of predictions and charts, and one whose page could not get plotly.js."""
    folder = tmp_path_factory.mktemp("page") / "site"
    asked = [("show.predict(q)", show.predict(each)) for each in QUESTIONS]
    drawn = [("show.rows_chart(p)", each) for each in CHARTS]
    rest: list[tuple[str, Any]] = [("rows", "16 is the result"), *asked[1:], ("## Charts", None), *drawn]
    books = {
        "77-made.ipynb": notebook("77 · Made for a test", [asked[0], *rest]),
        "78-more.ipynb": notebook("78 · More", [asked[0], ("## A chart", None), drawn[0]]),
    }
    publish.publish(books, folder)
    bare = folder / "notebooks" / "78-more.html"
    text = bare.read_text(encoding="utf-8")
    bare.write_text(text.replace("../assets/plotly-basic.min.js", "../assets/gone.js"), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def seen(site: Path, tools: dict[str, str]) -> Iterator[dict[str, Any]]:
    """What drive.js saw."""
    if plotly.script() is None:
        pytest.skip(f"no plotly.js {plotly.version()} from npm")
    told = {"site": str(site), "chromium": tools["chromium"], "axe": tools["axe"], "shots": os.environ.get("SHOTS")}
    done = subprocess.run(
        [tools["node"], str(HERE / "drive.js"), json.dumps(told)],
        env={**os.environ, "PLAYWRIGHT": tools["driver"]},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    yield json.loads(done.stdout)


def nothing_fails_and_nothing_is_asked_of_a_network(seen: dict[str, Any]) -> None:
    """No script raises, and each file is one of the folder."""
    assert (seen["errors"], seen["asked"]) == ([], [])


def a_number_is_answered_wrong_and_right(seen: dict[str, Any]) -> None:
    """No answer is asked again and loses nothing; a wrong one gets its reason alone; the first answer counts."""
    told, none, show_it = seen["answers"], "On this page: 0 of 5 predictions answered.", "Show the answer"
    once = "On this page: 1 of 5 predictions answered, 0 right at the first try."
    assert told["before"] == ["", ["Check", show_it], none]
    assert told["empty"] == "Type an answer."
    assert told["unread"] == ["You said maybe. Type one whole number, such as 12.", "maybe", none]
    wrong = "✗ Not right. You said 7.\nThe join does not store its rows again."
    assert told["wrong"] == [wrong, "7", ["Check", "Try again", show_it], once]
    assert told["again"][0] == "INPUT"
    right = "✓ Right. You said 16 rows.\nNine in the tables, five in MAX and two in the answer."
    assert told["right"] == [right, ["Check"], once]


def a_result_waits_for_the_answer(seen: dict[str, Any]) -> None:
    """The output after a question is hidden until the question is answered, or the reader wants to see it."""
    assert seen["answers"]["held"] == [False, True, False, True]


def choices_are_buttons_and_boxes(seen: dict[str, Any]) -> None:
    """Arrow keys go from choice to choice; several names are boxes; the answer is shown if it is asked for."""
    told = seen["answers"]
    assert told["choice"] == ["✗ Not right. You said visit.\nIt is a table.", ["visit"]]
    assert told["names"] == "✗ Not right. You said visit, answer."
    assert told["shown"][:2] == ["It was -U Fruit 40, +U Fruit 20.", ["Check"]]
    assert told["shown"][2] == "On this page: 3 of 5 predictions answered, 0 right at the first try."


def what_was_answered_is_remembered(seen: dict[str, Any]) -> None:
    """By the page, by the first page over all pages, and as a text; until the reader forgets it."""
    told, three = seen["answers"], "3 of 5 predictions answered, 0 right at the first try"
    assert told["reloaded"] == [True, "16 rows", f"On this page: {three}."]
    assert told["home"] == [
        "In this browser: 3 of 6 predictions answered, 0 right at the first try.",
        [f"77 · Made for a test: {three}"],
    ]
    assert told["saved"].splitlines() == [
        "77 · Made for a test",
        f"✗ {QUESTIONS[0].text}",
        "  7, then 16 rows (right)",
        f"✗ {QUESTIONS[1].text}",
        "  visit",
        f"✗ {QUESTIONS[2].text}",
        "  visit, answer",
    ]
    assert told["link"] == "77-made.html"
    none = "On this page: 0 of 5 predictions answered."
    assert told["forgotten"] == ["", none] and told["damaged"][0] == none and told["damaged"][1].startswith("✓ Right.")
    one = "On this page: 1 of 5 predictions answered, 1 right at the first try."
    assert seen["unkept"][0].startswith("✓ Right.") and seen["unkept"][1] == one


def every_width_and_theme(seen: dict[str, Any]) -> None:
    """Nothing is cut or smaller than 12 px, axe finds nothing, and a plot is for the eye alone; its table is folded."""
    fills = {"light": LIGHT["muted"], "dark": DARK["muted"]}
    for each in seen["looks"]:
        red, green, blue = (int(fills[each["theme"]][at : at + 2], 16) for at in (1, 3, 5))
        assert each["texts"] > 60 and each["fill"] == f"rgb({red}, {green}, {blue})"
        wrong = [each[kind] for kind in ("faults", "small", "cut")]
        assert wrong == [[], [], []] and each["over"] <= 0 and each["hidden"] and each["folded"], each


def a_chart_follows_the_readers_theme(seen: dict[str, Any]) -> None:
    """Its text has another colour after the reader has chosen the dark theme."""
    light, dark = seen["toggled"]
    assert light != dark


def without_a_script_and_on_paper(seen: dict[str, Any]) -> None:
    """Each question with its answer folded, and each chart as its table with its title; without plotly.js the table."""
    told, many, charts = seen["still"], len(QUESTIONS), len(CHARTS)
    page = {"questions": many, "answers": 0, "forms": 0, "counts": 0, "plots": 0, "tables": charts, "captions": charts}
    page["results"] = 1
    assert told["without a script"] == told["on paper"] == page
    live = {"questions": 0, "answers": 0, "forms": many, "counts": 1, "plots": charts, "tables": 0, "captions": 0}
    live["results"] = 0
    assert told["with a script"] == live
    assert told["without plotly.js"] == live | {"forms": 1, "plots": 0, "tables": 1, "captions": 1}


def explanations_are_not_in_the_source(site: Path) -> None:
    """The page's text has no explanation of a wrong answer, and none of its files is larger than it may be."""
    text = (site / "notebooks/77-made.html").read_text(encoding="utf-8")
    assert WHYS["right"] in text and WHYS[7] not in text and "It is a table" not in text
    assert len(text) < 1_500_000
    shared = [
        path for path in (site / "assets").rglob("*") if path.suffix in (".js", ".css") and "lunr" not in str(path)
    ]
    assert sum(path.stat().st_size for path in shared) < 1_800_000


def test_a_page_in_chromium(site: Path, seen: dict[str, Any], subtests: pytest.Subtests) -> None:
    """One site and one run of the browser for all that is above, however many processes run the tests."""
    for check in (
        nothing_fails_and_nothing_is_asked_of_a_network,
        a_number_is_answered_wrong_and_right,
        a_result_waits_for_the_answer,
        choices_are_buttons_and_boxes,
        what_was_answered_is_remembered,
        every_width_and_theme,
        a_chart_follows_the_readers_theme,
        without_a_script_and_on_paper,
    ):
        with subtests.test(check.__name__):
            check(seen)
    explanations_are_not_in_the_source(site)
