"""The state reader's tables equal those of the engine in process at every retained batch, and its errors are plain.

All tests read the checkpoint of one engine a strategy, because a micro-batch takes a second.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sparks import Start

import sharedstate_lite as ss
from sharedstate_lite.spark.rounds import home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST = 2
"""The first micro-batch that is retained: Spark is set to four, and retains one more in its logs."""

VIEWS = [
    """CREATE VIEW "it's" AS SELECT s, MAX(i) AS i, MIN(b) AS b, SUM(d) AS d, MAX(t) AS t, MIN(day) AS day,
       MAX(at) AS at FROM every GROUP BY s""",
    "CREATE VIEW low AS SELECT s, k, d FROM every JOIN other USING (s)",
    "CREATE VIEW high AS SELECT k, AVG(d) AS m, COUNT(*) AS n FROM low GROUP BY k",
    "CREATE VIEW top AS SELECT DISTINCT m FROM high",
]
ROW = ("a", 1, 2**40, 0.1, True, dt.date(1066, 10, 14), dt.datetime(1969, 12, 31, 23, 59, 59, 1))
STEPS: list[dict[str, Any]] = [
    {"every": [(ROW, 1)]},
    {"other": [(("a", "y"), 1)]},
    {"every": [(ROW, 2), ((None,) * 7, 1)], "other": [(("a", "x"), 1), ((None, "y"), 1), (("a", None), 1)]},
    {"every": [(("b", -5, -1, 1e16, False, None, None), 1), (ROW, -1)]},
    {"other": [(("b", "x"), 1), (("a", "x"), -1), (("a", "y"), -1)]},
    {"every": [((None,) * 7, -1)]},
]


@dataclass
class Run:
    """A finished run: where its state is, and the state of one process after each epoch."""

    kind: str
    place: Path
    tables: list[pd.DataFrame] = field(default_factory=list)
    rows: list[dict[str, pd.DataFrame]] = field(default_factory=list)

    @property
    def kept(self) -> range:
        """The epochs' micro-batches that are retained; batch n is epoch n + 1."""
        return range(FIRST, len(STEPS))


@pytest.fixture(scope="module", params=["shared", pytest.param("full", marks=pytest.mark.slow)])
def run(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """All steps, then a compaction; few micro-batches are retained, and the folder's name has a blank and a quote."""
    catalog = ss.Catalog(
        every="s STRING, i INT, b BIGINT, d DOUBLE, t BOOLEAN, day DATE, at TIMESTAMP", other="s STRING, k STRING"
    )
    views = [catalog.view(sql) for sql in VIEWS]
    out = Run(request.param, tmp_path_factory.mktemp("state") / "it's a place")
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "4")
    try:
        with (
            ss.engine(out.kind, views, join="linear") as here,
            ss.spark.engine(out.kind, views, spark, checkpoint=out.place, bins=2) as there,
        ):
            for step in STEPS:
                assert there.step(step) == here.step(step)
                out.tables.append(here.state())
                out.rows.append({name: here.state(name) for name in here.state().operator})
            there.compact()
    finally:
        spark.conf.unset("spark.sql.streaming.minBatchesToRetain")
    yield out


def test_rule_12_a_batch_shows_the_same_after_compaction(run: Run) -> None:
    """Each retained micro-batch shows the state of one process at that time, although all was merged since."""
    for batch in run.kept:
        table = ss.spark.state(run.place, batch=batch)
        assert (table.dtypes == run.tables[batch].dtypes).all()
        columns = ["operator", "relation", "key", "rows", "kind", "bill"]
        assert table[columns].equals(run.tables[batch][columns])
        # Reading one takes a third of a second, so each batch reads some of them.
        for name in table.operator[batch % len(run.kept) :: len(run.kept)]:
            found = ss.spark.state(run.place, name, batch)
            assert found.equals(run.rows[batch][name]), (batch, name)
            assert (found.dtypes == run.rows[batch][name].dtypes).all()
    # The last micro-batch is the compaction: no row of a view is there twice, and nothing else has changed.
    last = ss.spark.state(run.place)
    assert last["rows"].tolist() == [len(run.rows[-1][name]) for name in last.operator]


def test_changes_of_a_batch_are_the_difference_of_two(run: Run) -> None:
    """The changes of a micro-batch are its rows minus those before it; a merge changes nothing."""
    for name in ("it's", "low", "high", "top"):
        found = ss.spark.changes(run.place, name, len(STEPS) - 1)
        before, after = run.rows[-2][name], run.rows[-1][name]
        columns = [c for c in after.columns if c != "diff"]
        both = pd.concat([after.assign(sign=1), before.assign(sign=-1)])
        both["diff"] *= both.pop("sign")
        net = both.groupby(columns, dropna=False)["diff"].sum()
        assert sorted(found["diff"]) == sorted(net[net != 0])
    assert ss.spark.changes(run.place, "low", len(STEPS)).empty


def test_what_is_not_there_is_named(run: Run, tmp_path: Path) -> None:
    """A batch that is not retained, an unknown operator, no checkpoint: one plain error that lists what exists."""
    first, last = FIRST, len(STEPS)
    table = ss.spark.batches(run.place)
    assert table["kind"].tolist() == ["epoch"] * len(STEPS) + ["compaction"]
    assert table["batch"][table.kept].tolist() == list(range(first, last + 1))
    for batch, said in (
        (first - 1, f"{first - 1} is not retained, {first} to {last} are"),
        (last + 1, f"{last + 1} is not retained, {first} to {last} are"),
        (-1, f"-1 is not retained, {first} to {last} are"),
        (True, "True is not retained"),
        ("1", "'1' is not retained"),
    ):
        wrong: Any = batch
        with pytest.raises(ss.TimeError, match=said):
            ss.spark.state(run.place, batch=wrong)
    with pytest.raises(ss.TimeError, match=f"micro-batch {first - 1} is not retained"):
        ss.spark.changes(run.place, "low", first)
    with pytest.raises(ss.ViewError, match="nothing; state.. lists:.*it's"):
        ss.spark.state(run.place, "nothing")
    (tmp_path / "file").write_text("no checkpoint")
    for place in (tmp_path, tmp_path / "nowhere", tmp_path / "file"):
        with pytest.raises(ss.CheckpointError, match=str(place)):
            ss.spark.state(place)


def test_a_moved_place_is_refused(run: Run, tmp_path: Path) -> None:
    """Spark's files in a checkpoint contain its path, so it is read only where it was written."""
    moved = tmp_path / "else where"
    shutil.copytree(run.place, moved)
    with pytest.raises(ss.CheckpointError, match=f"was written in {run.place}, .* move it back"):
        ss.spark.state(moved, "top")


def test_state_files_that_are_lost_are_one_plain_error(run: Run, tmp_path: Path) -> None:
    """If Spark's reader fails, the error is a CheckpointError that names the place and the batch."""
    damaged = tmp_path / "damaged"
    shutil.copytree(run.place, damaged)
    home.write(damaged, "views", home.read(damaged, "views"))
    for file in damaged.glob("g-*/spark/state/0/[0-9]*/*"):
        if file.is_file():
            file.unlink()
    with pytest.raises(ss.CheckpointError, match=f"{damaged}: Spark cannot read the state of micro-batch 6"):
        ss.spark.state(damaged)


KILLED = """
    import os, signal
    import sharedstate_lite as ss
from sharedstate_lite.spark.rounds import home
    with ss.spark.session(memory="1g") as session:
        view = ss.Catalog({relation!r}).view({sql!r})
        engine = ss.spark.engine("full", [view], session, checkpoint={place!r}, bins=2)
        engine.step({{"visit": [(("a", "u", 1), 1), ((None, "u", 3), 1)]}})
        engine.step({{"visit": [(("a", "u", 5), 1)]}})
        os.kill(os.getpid(), signal.SIGKILL)
"""
RELATION = "product STRING, user STRING, length INT"
LONGEST = "CREATE VIEW longest AS SELECT product, MAX(length) AS length FROM visit GROUP BY product"


@pytest.mark.slow
def test_what_a_killed_driver_left_is_read_from_beside(spark: SparkSession, start: Start, tmp_path: Path) -> None:
    """After kill -9 of the driver its checkpoint shows micro-batches, and the state and changes of one process."""
    place = tmp_path / "killed"
    script = KILLED.replace("Catalog({relation!r})", "Catalog(visit={relation!r})")
    process = start(script.format(relation=RELATION, sql=LONGEST, place=str(place)))
    assert process.wait(180) == -9
    here = ss.engine("full", [ss.Catalog(visit=RELATION).view(LONGEST)])
    here.step({"visit": [(("a", "u", 1), 1), ((None, "u", 3), 1)]})
    here.step({"visit": [(("a", "u", 5), 1)]})
    table = ss.spark.state(place)
    assert table.operator.tolist() == here.state().operator.tolist()
    assert all(ss.spark.state(place, name).equals(here.state(name)) for name in table.operator)
    assert sorted(ss.spark.changes(place, "longest", 1)["diff"]) == [-1, 1]
    told = ss.spark.batches(place)
    assert told.values.tolist() == [[0, "epoch", 1, False, True], [1, "epoch", 2, False, True]]


def test_a_streams_checkpoint_is_read_like_an_engines(spark: SparkSession, tmp_path: Path) -> None:
    """The checkpoint of a stream shows each file as the micro-batch of an epoch, and the state after it."""
    source = tmp_path / "visit"
    source.mkdir()
    table = pa.table({"product": ["a"], "user": ["u"], "length": pa.array([4], pa.int32()), "diff": [1]})
    pq.write_table(table, source / "1.parquet")
    view, place = ss.Catalog(visit=RELATION).view(LONGEST), tmp_path / "job"

    def stream(**more: Any) -> Any:
        return ss.spark.stream("full", [view], {"visit": source}, tmp_path / "out", checkpoint=place, bins=2, **more)

    with stream(columns="all") as job:
        job.finish()
    with pytest.raises(ss.CheckpointError, match="it has columns='all'"):
        stream()
    assert ss.spark.batches(place).values.tolist() == [[0, "epoch", 1, False, True]]
    assert ss.spark.state(place, "longest").values.tolist() == [["a", 4, 1]]
