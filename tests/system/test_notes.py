"""Notes: what engines log, and who prints it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

import sharedstate_lite as ss

READ = """
import sharedstate_lite as ss
view = ss.Catalog(t="k STRING").view("CREATE VIEW towns AS SELECT k, COUNT(*) AS n FROM t GROUP BY k")
engine = ss.engine("partial", [view])
engine.read("towns")
"""
UNREAD = (
    "towns: nothing was read yet (or all keys were evicted), so read('towns') has no rows; partial state stores the "
    "keys that you read with read('towns', key=...)"
)


def test_an_empty_read_of_partial_state_says_why_once(notes: Callable[[], list[str]]) -> None:
    """Without a filled key there is one note for each view; with one, and under the other strategies, there is none."""
    names: dict[str, object] = {}
    exec(READ, names)
    engine = names["engine"]
    assert isinstance(engine, ss.Engine)
    assert len(engine.read("towns")) == 0 and notes() == [UNREAD]
    engine.step({"t": [(("a",), 1)]})
    engine.read("towns", key="nowhere")
    assert len(engine.read("towns")) == 0 and len(engine.read("towns", key="a")) == 1
    with ss.engine("full", list(engine.views.values())) as full:
        full.read("towns")
    with pytest.raises(ss.ViewError):
        engine.read("cities")
    assert notes() == []


@pytest.mark.parametrize(("first", "printed"), [("", ""), ("__import__('builtins').__IPYTHON__ = True", UNREAD)])
def test_a_notebook_shows_notes_and_a_program_does_not(first: str, printed: str) -> None:
    """IPython sets the name by which the kit knows that it is in a notebook."""
    done = subprocess.run([sys.executable, "-c", first + READ], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == (printed, "")
