"""docs/sql.md, "Partial state": which views partial state rejects, why, and what helps."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
from places import make
from support import only, tuples

import sharedstate_lite as ss

PAGE = (Path(__file__).parents[2] / "docs" / "sql.md").read_text()
SECTION = PAGE.split("\n## Partial state\n")[1].split("\n## ")[0]
ROWS = [re.split(r" *\| *", line)[1:-1] for line in SECTION.splitlines() if line.startswith("| `")]
CODE = re.compile("`([^`]*)`")
WEEKS = re.findall(r"`weeks` is the view `([^`]*)`", SECTION.replace("\n", " "))[0]
DATA: Any = {
    "info": [((p, c, x), 1) for p, c, x in (("a", "F", 1.5), ("b", "G", None), ("c", None, 2.0), (None, "F", 3.0))],
    "visit": [
        ((p, u, n, None, None), d)
        for p, u, n, d in (
            ("a", "x", 1, 2),
            ("a", "y", 9, 1),
            ("d", "x", 12, 1),
            (None, "z", 7, 1),
            ("b", None, None, 1),
        )
    ],
    "cat": [(("F", "x", 9, True), 1), (("G", "q", 2, None), 1), (("H", None, 1, False), 1)],
}


def shop(sql: str, key: Any = None) -> ss.View:
    """The view v of the SQL, in the catalog of the page."""
    names: dict[str, Any] = {"ss": ss}
    exec(PAGE.split("```python\nimport sharedstate_lite as ss\n")[1].split("```")[0], names)
    catalog: ss.Catalog = names["catalog"]
    catalog.view(f"CREATE VIEW weeks AS {WEEKS}")
    return catalog.view(f"CREATE VIEW v AS {sql}", key)


def equals_full_state(view: ss.View) -> None:
    """Every key of the view has the rows that full state has, before and after a deletion."""
    with make("partial", [view]) as engine, make("full", [view]) as right:
        for epoch in (DATA, {"visit": [(DATA["visit"][0][0], -1)]}):
            engine.step(epoch)
            right.step(epoch)
            whole = right.read("v")
            keys = {tuple(row[i] for i in view.key) for row in tuples(whole)}
            assert keys
            for key in keys:
                assert tuples(engine.read("v", key)) == tuples(only(whole, view, [key])), key


def test_the_table_is_there() -> None:
    """The table has a row for each reason, with and without a key that helps."""
    assert len(ROWS) >= 10
    assert {"computed", "aggregate", "JOIN"} == {reason.split()[-1] for _, reason, _ in ROWS}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1] + ": " + row[2])
def test_what_partial_state_rejects(row: list[str]) -> None:
    """The view is rejected for the reason in the table, full and shared state maintain it, and the advice helps."""
    sql, reason, helps = CODE.findall(row[0])[0], row[1], row[2]
    view = shop(sql)
    for kind in ("full", "shared"):
        with make(kind, [view]) as engine:
            engine.step(DATA)
            assert len(engine.read("v"))
    told = f"^view v:? {re.escape(reason)}, so an upquery .* use full or shared state$"
    with pytest.raises(ss.ViewError, match=told):
        make("partial", [view])
    if helps == "no key":
        names = [column.name for column in view.schema]
        for key in itertools.chain.from_iterable(itertools.combinations(names, n + 1) for n in range(len(names))):
            with pytest.raises(ss.ViewError, match="so an upquery"):
                make("partial", [shop(sql, key)])
    elif helps.startswith("`key="):
        equals_full_state(shop(sql, re.findall('"(.*?)"', helps)))
    else:
        equals_full_state(shop(CODE.findall(helps)[0]))
