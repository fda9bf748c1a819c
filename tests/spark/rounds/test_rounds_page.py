"""The bin of docs/rounds.md, in memory and on Spark; and the path of one step, with which docs/spark.md begins."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sharedstate_lite as ss
from sharedstate_lite.spark.bins.bin import ViewBin
from sharedstate_lite.spark.driver.driver import EngineDriver
from sharedstate_lite.spark.rounds import operator, worker
from sharedstate_lite.spark.rounds.inbox import Inbox
from sharedstate_lite.spark.rounds.local import LocalRounds
from sharedstate_lite.spark.rounds.query import Query
from sharedstate_lite.spark.rounds.runs import RunsBin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCS = Path(__file__).resolve().parents[3] / "docs"
BIN, LOCAL, ON_SPARK = re.findall(r"```python\n(.*?)```", (DOCS / "rounds.md").read_text(), re.S)
EXPECTED = {"bob": 2, "cleo": 1}


def page(**names: Any) -> dict[str, Any]:
    """The names that the page's first program defines, as a notebook does."""
    scope = {"__name__": "__main__", **names}
    exec(BIN, scope)
    return scope


def test_the_bin_has_at_most_40_lines() -> None:
    """The page's first program, without blank lines."""
    assert len([line for line in BIN.splitlines() if line.strip()]) <= 40


def test_the_page_in_memory() -> None:
    """The page's second program finds what its comment says."""
    scope = page()
    exec(LOCAL, scope)
    assert scope["found"] == EXPECTED


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=6), max_size=6), st.integers(0, 3), st.integers(0, 9))
def test_votes_are_counted_once(polls: list[list[str]], lose: int, seed: int) -> None:
    """However often workers take turns, and in whatever order messages come."""
    scope, expected = page(), Counter[str]()
    rounds = LocalRounds(scope["VotesRecipe"](f"drawn {lose} {seed}", bins=4), stages=1, lose=lose, seed=seed)
    for epoch, names in enumerate(polls, 1):
        expected.update(names)
        assert scope["poll"](rounds, epoch, names) == {name: expected[name] for name in names}


def test_an_error_undoes_the_round() -> None:
    """A message that a bin refuses: no bin keeps anything of the round, and the next one works."""
    scope = page()
    step = scope["Votes"].step

    def strict(self: Any, messages: Any) -> Any:
        if any(m.what == "blank" for m in messages):
            raise ss.Error("blank is not a candidate")
        return step(self, messages)

    scope["Votes"].step = strict
    rounds = LocalRounds(scope["VotesRecipe"]("strict", bins=4), stages=1)
    names = ["ann", "bob", "cleo", "dora"]
    scope["poll"](rounds, 1, names)
    with pytest.raises(ss.Error, match="blank is not a candidate"):
        scope["poll"](rounds, 2, [*names, "blank"])
    assert scope["poll"](rounds, 2, names) == dict.fromkeys(names, 2)


def test_the_page_on_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page's third program; a start with the same folder continues. Code is generated for other queries only."""
    monkeypatch.setattr(ss.spark, "session", lambda: spark)
    scope = page(folder=tmp_path)
    exec(ON_SPARK, scope)
    assert scope["found"] == EXPECTED
    query = Query(spark, tmp_path, scope["VotesRecipe"]("votes", bins=4), stages=1, began=0)
    query.start()
    try:
        assert scope["poll"](query, 3, ["ann"]) == {"ann": 3}
        counts = [head["counts"] for head in query.heads().values()]
        assert dict(sorted(pair for each in counts for pair in each.items())) == {"ann": 3, "bob": 2, "cleo": 1}
        query.queries[-1].explain()
        spark.range(3).filter("id > 1").explain()
        rounds, other = capsys.readouterr().out.split("== Physical Plan ==")[1:]
        assert "TransformWithState" in rounds and "*(" not in rounds and "*(1) Filter" in other
    finally:
        query.close()


CALLS: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    (EngineDriver._run, Query.run),
    (Query.run, Inbox.put),
    (operator.LazyProcessor.handleInputRows, worker.StageWork.rows),
    (worker._run, ViewBin.step),
    (worker._run, RunsBin.save),
]
"""Who calls whom in one step. Between the second and the third, Spark reads the folder of the inbox."""


def test_the_path_of_one_step() -> None:
    """docs/spark.md begins with the seven files of one step, and each calls the next."""
    paragraph = (DOCS / "spark.md").read_text().split("\n\n")[1]
    files = re.findall(r"`((?:driver|rounds|bins)/\w+\.py)`", paragraph)
    room = Path(inspect.getfile(ss.spark)).parent
    on_the_way = list(dict.fromkeys(inspect.getfile(each) for call in CALLS for each in call))
    assert len(files) == 7 and [str(room / file) for file in files] == on_the_way
    for caller, called in CALLS:
        assert f".{called.__name__}(" in inspect.getsource(caller), (caller, called)
    assert "run_stages(source.parquet(readable(self.inbox.path))" in inspect.getsource(Query._started)
