"""bench/without.py: each idea can be taken away, and the answers stay right; record and page have the same diffs."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from bench import without
from grader.wire.client import Generator
from sharedstate_lite.lessons.records import FOLDER

RECORD = json.loads((FOLDER / "19.json").read_text(encoding="utf-8"))
PAGE = (without.FAST / "README.md").read_text(encoding="utf-8")


def changed(diff: str) -> list[str]:
    """The files and the lines of a diff. Where the lines stand does not matter."""
    return [line for line in diff.splitlines() if not line.startswith(("@@", "---"))]


def test_the_record_and_the_page_have_today_s_diffs() -> None:
    """Every idea is in the record, with the diff that the command applies today; the page has each diff once."""
    rows = [(row["idea"], row["requests"], changed(row["diff"])) for row in RECORD["rows"]]
    today = [(idea.name, idea.requests, changed(idea.diff())) for idea in without.IDEAS]
    assert rows == [(without.WHOLE, without.CHECKOUT, []), *today]
    blocks = [block.splitlines() for block in re.findall(r"```diff\n(.*?)\n```", PAGE, re.DOTALL)]
    assert blocks == list({name: diff for name, _, diff in today}.values())


def test_a_text_must_occur_once(tmp_path: Path) -> None:
    """A change whose text is gone, or occurs twice, is refused by name."""
    for text in ("no such text", "import"):
        idea = without.Idea("x", (without.Change("loop.py", text, ""),))
        with pytest.raises(ValueError, match=rf"without x: loop.py must contain '{text}' exactly once"):
            idea.plant(tmp_path / text)


WRONG = without.Idea("money", (without.Change("ledger.py", "balances[want[at]] -= want[at + 1]", "pass"),))
LIVE = {f"{idea.name}, {idea.requests}": idea for idea in without.IDEAS}
SLOW = [name for name in LIVE if not name.startswith("positions")]
"""`positions` changes the messages; the other diffs change one line or two."""


@pytest.mark.skipif(sys.platform != "linux", reason="the system needs epoll: run this on Linux")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in [*LIVE, "money"]]
)
def test_a_variant_answers_rightly(name: str, tmp_path: Path) -> None:
    """Without an idea, all requests are answered 200 and all money and stock are there; a ledger that takes nothing is
    seen."""
    idea, generator = LIVE.get(name, WRONG), Generator()
    try:
        _, right = without.measured(idea.plant(tmp_path / "fast"), idea.requests, 36, generator)
    finally:
        generator.close()
    assert right == (idea is not WRONG)
