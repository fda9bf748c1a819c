"""A call on an engine happens completely or not at all: compact, drop and install."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from places import ENGINES, IN_BINS, installs, make
from support import fingerprint, pairs

import sharedstate_lite as ss

RELATIONS = {"a": "s STRING, x INT", "b": "s STRING, y INT"}
SQL = (
    "CREATE VIEW v AS SELECT s, MAX(y) AS most, SUM(x) AS total FROM a JOIN b USING (s) GROUP BY s",
    "CREATE VIEW w AS SELECT s, x FROM a",
)


def begun(label: str) -> Any:
    """An engine with a removed string in the middle of its dictionary, so that compaction changes codes."""
    catalog = ss.Catalog(**RELATIONS)
    engine = make(label, [catalog.view(sql) for sql in SQL])
    if engine.kind == "partial":
        for view in engine.views:
            for key in ("gone", "apple", "pear"):
                engine.read(view, key=key)
    both = [(("gone", 1), 1), (("apple", 2), 1), (("pear", 3), 1)]
    engine.step({"a": both, "b": both})
    engine.step({"a": [(("gone", 1), -1)], "b": [(("gone", 1), -1)]})
    if engine.kind == "partial":
        for view in engine.views:
            engine.evict(view, key="gone")
    return engine


@contextmanager
def interrupted(at: int) -> Iterator[list[int]]:
    """Raise KeyboardInterrupt at line ``at`` that the library executes; yields the count of lines."""
    count = [0]

    def trace(frame: Any, event: str, _: Any) -> Any:
        if "sharedstate_lite" not in frame.f_code.co_filename or "/tests/" in frame.f_code.co_filename:
            return None
        count[0] += event == "line"
        if count[0] == at and event == "line":
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield count
    finally:
        sys.settrace(before)


ACTS: dict[str, Callable[[Any], None]] = {"compact": lambda e: e.compact(), "drop": lambda e: e.drop("w")}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("label", ["full", "shared", "partial"])
def test_an_interrupt_at_any_line_leaves_all_as_it_was(label: str, act: str) -> None:
    """An interrupted compact or drop has no effect or is complete; the same call then succeeds."""
    engine = begun(label)
    with interrupted(-1) as lines:
        ACTS[act](engine)
    after = fingerprint(engine)
    for at in range(1, lines[0] + 1, max(1, lines[0] // 15)):
        engine = begun(label)
        before, codes = fingerprint(engine), engine.dictionary.strings
        try:
            with interrupted(at):
                ACTS[act](engine)
        except KeyboardInterrupt:
            now = fingerprint(engine)
            assert now in (before, after), at
            if now == before:
                assert engine.dictionary.strings is codes
                ACTS[act](engine)
        assert fingerprint(engine) == after, at
        engine.step({"a": [(("pear", 3), -1)]})


@pytest.mark.parametrize("label", ENGINES)
def test_memory_that_runs_out_in_a_compaction(label: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a MemoryError codes are replaced everywhere or nowhere, so rows keep their strings."""
    from sharedstate_lite.storage.arrangement import Arrangement

    engine = begun(label)
    before, recode, calls = fingerprint(engine), Arrangement.recode, [0]

    def second(self: Arrangement, moved: Any) -> None:
        calls[0] += 1
        if calls[0] == 2:
            raise MemoryError
        recode(self, moved)

    monkeypatch.setattr(Arrangement, "recode", second)
    with pytest.raises(MemoryError):
        engine.compact()
    monkeypatch.undo()
    assert fingerprint(engine) == before
    engine.compact()
    assert engine.step({"a": [(("pear", 3), -1)]})["w"].to_pandas()["s"].tolist() == ["pear"]


@pytest.mark.parametrize("label", [name for name in ENGINES if name != "partial"])
def test_a_view_dropped_and_installed_before_step_1(label: str) -> None:
    """Install returned the row of the view, so step 1 changes it and does not emit it again."""
    catalog = ss.Catalog(a="x INT")
    count, rows = (catalog.view(f"CREATE VIEW {n} AS SELECT {w} FROM a") for n, w in (("g", "COUNT(*) AS n"), "wx"))
    with make(label, [rows, count]) as engine:
        engine.drop("g")
        assert pairs(engine.install(count)) == [((0,), 1)]
        assert pairs(engine.step({"a": [((1,), 1)]})["g"]) == [((0,), -1), ((1,), 1)]


@pytest.mark.parametrize("label", [*ENGINES, *IN_BINS])
def test_a_view_of_another_catalog_is_not_dropped(label: str) -> None:
    """A view of another catalog with the same name is not dropped."""
    mine, other = ss.Catalog(**RELATIONS), ss.Catalog(**RELATIONS)
    with make(label, [mine.view(sql) for sql in SQL]) as engine:
        with pytest.raises(ss.ViewError, match="view w belongs to another catalog"):
            engine.drop(other.view(SQL[1]))
        assert list(engine.views) == ["v", "w"]
        if installs(label):
            engine.drop(mine.views["w"])
            assert list(engine.views) == ["v"]
