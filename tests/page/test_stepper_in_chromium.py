"""The stepper in Chromium: nothing overlaps or moves at any width, keys work, and questions are judged.

SHOTS=/some/folder keeps a picture of each recording at each width.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cases import CASES, RELATIONS

import sharedstate_lite as ss
from sharedstate_lite import show
from sharedstate_lite.replay.messages import Epoch, Read
from sharedstate_lite.show.page import SCRIPT, STEPPER_STYLE
from sharedstate_lite.show.palette import style
from sharedstate_lite.system.example import ASKED, MESSAGES, SCHEMA, SQL

HERE = Path(__file__).resolve().parent
ASKS, FORK = 26, "+1 visit Potato, Eve, 61"
ANSWERS = [
    ["unread", "Vegetable"],
    ["right", "-U vegetable 50, +U vegetable 60"],
    ["again", "nothing"],
]
DRAWN = 10
"""How many of the rules' cases are looked at, besides the shopping visits, a race and two views in turn."""


def shopping(kind: str, **options: Any) -> show.Stepper:
    """The shopping visits with a read, a deletion, and under shared state a slow reader."""
    messages: list[Any] = [*MESSAGES]
    if kind == "partial":
        messages += [Read("result", (ASKED,)), ("visit", ("Potato", "Eve", 70))]
    if kind == "shared":
        messages[4:4] = [("hold", "slow", 4)]
    if kind != "full":
        messages.append(("visit", ("Potato", "Eve", 60), -1))
    return show.stepper(ss.replay(kind, [ss.Catalog(**SCHEMA).view(SQL)], **options), messages)


def race() -> show.Stepper:
    """The race of rule 18, without its fix."""
    catalog = ss.Catalog(visit="product STRING, user STRING, length INT")
    view = catalog.view("CREATE VIEW visitors AS SELECT product, COUNT(*) AS visits FROM visit GROUP BY product")
    history = [("visit", ("Potato", "Ann", 5)), ("pause",), ("read", "visitors", "Potato")]
    history += [("visit", ("Potato", "Dan", 5)), ("deliver", "visit", "visitors.group1"), ("resume",)]
    return show.stepper(ss.replay("partial", [view], without={"rule18"}), history)


def installed() -> show.Stepper:
    """A view is installed and dropped while another one stays; one message is refused."""
    catalog = ss.Catalog(**SCHEMA)
    view = catalog.view(SQL)
    catalog.view("CREATE VIEW visits AS SELECT DISTINCT product FROM visit")
    history = [*MESSAGES[:6], ("install", "visits"), *MESSAGES[6:], ("drop", "visits"), "no message"]
    return show.stepper(ss.replay("shared", [view]), history)


def of_case(name: str, kind: str, chance: random.Random) -> show.Stepper:
    """A case's views with some rows in every relation, long and absent values among them."""
    catalog, views = CASES[name].declare()
    words = ["a", "Vegetable", "", None, "a word that is longer than any column is wide", "北京市", "<b>&"]
    messages: list[Any] = []
    for relation in RELATIONS:
        if any(relation in sql for sql in CASES[name].sql):
            types = [column.type for column in catalog.relations[relation]]
            for _ in range(4):
                row = tuple(chance.choice(words) if t.name == "STRING" else chance.randint(0, 9) for t in types)
                messages.append(Epoch(((relation, row, 1),)))
    if kind == "partial":
        messages.append(Read(views[-1].name, tuple([None] * len(views[-1].key))))
    return show.stepper(ss.replay(kind, views), messages)


def recordings() -> dict[str, Any]:
    """The recordings to look at, and one graph."""
    chance = random.Random(20261130)
    made = {kind: shopping(kind) for kind in ("full", "shared", "partial")} | {"race": race(), "installed": installed()}
    for n, name in enumerate(chance.sample(sorted(CASES), DRAWN)):
        kind = ("full", "shared", "partial")[n % 3] if CASES[name].partial else ("full", "shared")[n % 2]
        made[f"{name}, {kind}"] = of_case(name, kind, chance)
    engine = ss.engine("shared", [ss.Catalog(**SCHEMA).view(SQL)])
    for relation, row in MESSAGES:
        engine.step({relation: [(row, 1)]})
    graph = show.graph(engine.graph(), engine.state, carried=engine.trace.rows_by_edge(), title="A graph")
    return {name: each.data() for name, each in made.items()} | {"graph": graph.data()}


@pytest.fixture(scope="module")
def seen(tools: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What drive_stepper.js saw."""
    fork = shopping("full")._asked({"history": "main", "message": len(MESSAGES), "text": FORK, "insert": False})
    told = {"recordings": recordings(), "forks": {FORK: fork}, "asked": {"step": ASKS, "answers": ANSWERS}}
    told |= {"script": SCRIPT, "style": style() + STEPPER_STYLE, "shots": os.environ.get("SHOTS")}
    told |= {"chromium": tools["chromium"], "axe": tools["axe"]}
    path = tmp_path_factory.mktemp("stepper") / "told.json"
    path.write_text(json.dumps(told), encoding="utf-8")
    done = subprocess.run(
        [tools["node"], str(HERE / "drive_stepper.js"), str(path)],
        env={**os.environ, "PLAYWRIGHT": tools["driver"]},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    yield json.loads(done.stdout)


def test_a_stepper_in_chromium(seen: dict[str, Any]) -> None:
    """One run of the browser, and all that it saw."""
    assert seen["errors"] == []
    assert seen["faults"] == [], "\n".join(seen["faults"][:20])
    assert not any(seen["axe"].values()), seen["axe"]
    assert len(seen["axe"]) == 4


def test_a_stepper_by_keyboard(seen: dict[str, Any]) -> None:
    """Steps, the question, both views, folding, an edit that is refused, a fork, and the way back."""
    told = seen["keys"]
    assert told["steps"] == [1, 2, 1, 2, 4, 28, 0]
    at, question = told["asked"]
    assert (at["step"], at["acts"], question) == (ASKS, "result.join1", "What will MAX(length) send?")
    assert at["slider"] == "step 26 of 28, epoch 9" and at["caption"].startswith("JOIN stores +1 (Potato, 60)")
    assert [verdict for _, verdict, _ in told["verdicts"]] == [
        "Start each row with its kind, or with + or - (-U a 1, +U a 2, or: nothing).",
        "✓ You said -U vegetable 50, +U vegetable 60. Right.",
        "✓ You said -U vegetable 50, +U vegetable 60. Right.",
    ], "the first answer counts"
    assert [score for *_, score in told["verdicts"]] == ["", *["1 of 1 right"] * 2]
    assert told["time"] == [1, False, ["+1 Potato 60", "+1 Vegetable 60"]]
    assert len(told["keys"]) == 14 and told["folded"] == [False, True]
    assert told["edit"] == ["Change message 9 to", "+1 visit Potato, Eve, 60"]
    assert told["forked"] == [
        ["nonsense is not a message", [1, "main", 28]],
        ["", [2, "A", 24]],
    ]
    assert told["turned"] == "main" and [each["text"] for each in told["requests"]] == ["nonsense", FORK]
    buttons, said = told["alone"]
    assert not any("Edit" in each or "Insert" in each for each in buttons) and said
    assert told["still"] == 0, "steps leave nothing behind"
