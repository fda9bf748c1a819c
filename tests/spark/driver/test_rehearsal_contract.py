"""The contract of the engines over bins, without Spark: what differs from one process, and the bound on what is stored.

Input, values and keys are in tests/engine/test_contract.py.
"""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from rehearsal import Rehearsal
from support import entries, tuples

import sharedstate_lite as ss

RELATIONS = {"info": "product STRING, category STRING", "visit": "product STRING, user STRING, length INT"}
RESULT = "SELECT category, MAX(length) AS max_length FROM info JOIN visit USING (product) GROUP BY category"
every_kind = pytest.mark.parametrize("kind", ["full", "shared"])


def made(kind: str, *sql: str) -> list[Any]:
    """An engine over bins and one in process, over the same views."""
    catalog = ss.Catalog(**RELATIONS)
    views = [catalog.view(f"CREATE VIEW v{n} AS {text}") for n, text in enumerate(sql)]
    return [Rehearsal(kind, views), ss.engine(kind, views, join="linear")]


@every_kind
def test_rule_03_what_is_stored_is_bounded_in_each_bin(kind: str) -> None:
    """After many inserts and deletes a bin stores at most twice the live rows, two epochs and 1,000 rows."""
    there, _ = made(kind, "SELECT product, MAX(length) AS top FROM visit GROUP BY product")
    draw, live = random.Random(5), []
    there.step({"visit": [((f"p{n % 50}", "u", n), 1) for n in range(3_000)]})
    for epoch in range(40):
        come = [(f"p{draw.randrange(50)}", "u", 10_000 + 100 * epoch + n) for n in range(100)]
        there.step({"visit": [(row, 1) for row in come] + [(row, -1) for row in live]})
        live = come
        (base,) = (name for name in entries(there) if name.startswith("visit["))
        assert entries(there)[base] <= 2 * 3_100 + there.bins * (2 * 200 + 1_000)
    assert len(tuples(there.read("v0"))) == 50


@every_kind
def test_views_that_come_and_go_before_step_1(kind: str) -> None:
    """The row of an aggregate without GROUP BY is there before step 1, and is emitted once: by install or by step 1."""
    told = []
    for engine in made(kind, "SELECT COUNT(*) AS n FROM visit", "SELECT product FROM visit"):
        assert tuples(engine.read("v0")) == [(0,)]
        out: list[Any] = []
        for name in ("w0", "w1"):
            known = engine.catalog.views.get(name)
            view = known or engine.catalog.view(f"CREATE VIEW {name} AS SELECT MAX(length) AS most FROM visit")
            out.append(tuples(engine.install(view).to_pandas()))
        engine.drop("v1")
        engine.drop("w1")
        out.append({n: tuples(c.to_pandas()) for n, c in engine.step({"visit": [(("a", "u", 3), 1)]}).items()})
        told.append(out)
    assert told[0] == told[1]
    assert told[0][-1] == {"v0": [(1, 1, 1)], "w0": [(None, 1, -1), (3, 1, 1)]}


@every_kind
def test_what_step_1_owes_survives_a_restart(kind: str, tmp_path: Path) -> None:
    """A checkpoint between an install at epoch 0 and step 1: step 1 of the restored engine emits the first rows."""
    out = []
    for engine in made(kind, "SELECT COUNT(*) AS n FROM visit", "SELECT product FROM visit"):
        views = engine.catalog.views
        late = views.get("late") or engine.catalog.view("CREATE VIEW late AS SELECT MAX(length) AS most FROM visit")
        engine.install(late)
        place = tmp_path / type(engine).__name__
        engine.checkpoint(place)
        again = engine.restore(place) if isinstance(engine, Rehearsal) else ss.restore(place)
        for each in (engine, again):
            out.append({n: tuples(c.to_pandas()) for n, c in each.step({"visit": [(("a", "u", 3), 1)]}).items()})
    assert out[0]["v0"] == [(1, 1, 1)] and out[0]["late"] == [(None, 1, -1), (3, 1, 1)]
    assert all(each == out[0] for each in out[1:])


@every_kind
def test_what_answers_for_the_last_epoch_only(kind: str) -> None:
    """A read of an earlier epoch, a handle and evict are refused by name."""
    there, _ = made(kind, RESULT)
    there.step({})
    there.step({})
    assert there.read("v0", at=2).empty
    with pytest.raises(ss.TimeError, match="on Spark"):
        there.read("v0", at=1)
    with pytest.raises(ss.TimeError, match="on Spark"):
        there.handle()
    with pytest.raises(ss.ViewError, match="only the partial engine evicts"):
        there.evict("v0", key="F")
    there.close()
    with pytest.raises(ss.Error, match="closed"):
        there.step({})


@every_kind
def test_threads_that_step_at_once(kind: str) -> None:
    """Calls of several threads run one after the other: each epoch has its number, and no row is lost."""
    there, _ = made(kind, "SELECT user, COUNT(*) AS n FROM visit GROUP BY user")
    run, inside = there._run, threading.Lock()

    def alone(*given: Any) -> Any:
        assert inside.acquire(blocking=False), "two micro-batches at once"
        try:
            return run(*given)
        finally:
            inside.release()

    there._run = alone
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: there.step({"visit": [(("p", "u", n), 1)]}), range(24)))
    assert there.epoch == 24 and there.read("v0")["n"].tolist() == [24]
