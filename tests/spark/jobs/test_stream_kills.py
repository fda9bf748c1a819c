"""Streams without Spark, whose driver is killed at any step: every epoch happens once, and its changes come once."""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from machine import Killed, Machine, batches, stepping
from shopping import EPOCHS, arrow, bag, changelog, views

import sharedstate_lite as ss
from sharedstate_lite.spark.bins.engine_spec import EngineSpec
from sharedstate_lite.spark.driver import engine
from sharedstate_lite.spark.jobs import sink, sources, stream
from sharedstate_lite.spark.jobs.stream import Stream
from sharedstate_lite.spark.rounds.inbox import Inbox

BAD = [(("p1", "u1", 77), -1)]
"""A retraction of a row that is not there."""


def intake(machine: Machine) -> type[sources.Intake]:
    """A DataFrame whose micro-batches are the epochs of its relation. Spark repeats one that is not committed."""

    class Batches(sources.Intake):
        def start(self, trigger: dict[str, Any]) -> None:
            self._stopped = True  # nothing waits, because all runs in one thread

        def stop(self) -> None:
            pass

        def running(self) -> bool:
            commits = self._spark / "commits"
            commits.mkdir(parents=True, exist_ok=True)
            number = len(list(commits.iterdir()))
            if number == len(EPOCHS):
                return False
            rows = arrow("info", EPOCHS[number].get("info", []))
            machine.step()
            self._write(SimpleNamespace(toArrow=lambda: rows), number)  # type: ignore[arg-type]
            machine.step()
            (commits / str(number)).touch()
            return True

    return Batches


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine on which streams are started."""
    made = Machine(Random(0))
    monkeypatch.setattr(engine, "Query", batches(made))
    monkeypatch.setattr(stream, "Intake", intake(made))
    monkeypatch.setattr(sources, "frame", lambda relation, schema, source: source)
    for where, name in ((engine, "usable"), (engine, "stateful"), (stream, "usable")):
        monkeypatch.setattr(where, name, lambda session, what: session)
    monkeypatch.setattr(engine, "ended", lambda _: False)
    for where, name in ((Inbox, "_log"), (Inbox, "_publish"), (stream, "kept"), (sink, "write"), (sink, "deliver")):
        monkeypatch.setattr(where, name, stepping(made, getattr(where, name)))
    return made


def run(machine: Machine, place: Path, target: Any, kind: str = "shared") -> None:
    """Start a stream and finish it: visits are files, and products a DataFrame."""
    named = {"visit": place / "visit", "info": object()}
    session: Any = SimpleNamespace()
    with Stream(EngineSpec(kind, views()), named, target, session, place / "c", 3) as job:
        job.finish()


def visits(place: Path) -> list[Any]:
    """A file of visits for each epoch, and one that is refused. Returns the visits of each."""
    (place / "visit").mkdir()
    given = [epoch.get("visit", []) for epoch in EPOCHS]
    for number, rows in enumerate([*given[:2], BAD, *given[2:]]):
        name = "bad" if rows is BAD else number
        pq.write_table(arrow("visit", rows), place / "visit" / f"{number}-{name}.parquet")
    return given


@pytest.mark.parametrize("seed", range(12))
def test_a_driver_that_is_killed_at_any_step(machine: Machine, tmp_path: Path, seed: int) -> None:
    """The changes of visits are those of one process, file by file; those of the join add up; a bad file is named."""
    rng = machine.rng = Random(seed)
    given, told, kills = visits(tmp_path), Counter[str](), 8
    with ss.engine("full", views()) as here:
        wanted = [bag(here.step({"visit": rows})["counts"]) for rows in given]
    while True:
        machine.left, machine.dead = rng.randrange(1, 60) if kills else 0, False
        kills = max(0, kills - 1)
        try:
            run(machine, tmp_path, tmp_path / "out")
            break
        except Killed:
            continue
        except ss.RowError as error:
            told[error.__notes__[0].rpartition("/")[2].partition(":")[0]] += 1
            (tmp_path / "visit" / "2-bad.parquet").unlink()
    assert set(told) == {"2-bad.parquet"}
    assert changelog(tmp_path / "out", "counts") == [each for each in wanted if each]
    total: Counter[Any] = Counter()
    for each in changelog(tmp_path / "out", "result"):
        total.update(each)
    with ss.engine("full", views()) as here:
        for epoch in EPOCHS:
            here.step(epoch)
        rows = [tuple(row) for row in here.read("result").itertuples(index=False)]
    assert {row: n for row, n in total.items() if n} == dict.fromkeys(rows, 1)


def test_a_function_gets_each_batch_at_least_once(machine: Machine, tmp_path: Path) -> None:
    """Killed in the function, it gets the batch again; a start after a clean end gives it nothing."""
    visits(tmp_path)
    (tmp_path / "visit" / "2-bad.parquet").unlink()
    got: list[int] = []

    def take(changes: dict[str, ss.Changes], number: int) -> None:
        got.append(number)
        if len(got) in (2, 3):
            raise Killed

    for _ in range(2):
        with pytest.raises(Killed):
            run(machine, tmp_path, take)
    run(machine, tmp_path, take)
    run(machine, tmp_path, take)
    assert got == [0, 1, 1, 1, 2, 3]


def die(*_: Any) -> None:
    """The driver is killed here."""
    raise Killed


def test_a_file_that_is_removed_after_its_round_has_begun(machine: Machine, tmp_path: Path) -> None:
    """The checkpoint has its own name for the file, so the round is completed; without that file it is refused."""
    visits(tmp_path)
    for lost in (False, True):
        place = tmp_path / str(lost)
        shutil.copytree(tmp_path / "visit", place / "visit")
        machine.states, machine.left = {0: {}}, 0
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Killed):
            patch.setattr(Inbox, "_publish", die)
            run(machine, place, place / "out")
        (file := place / "visit" / "0-0.parquet").rename(place / "kept")
        if lost:
            for link in place.glob("c/g-*/rows/*"):
                link.unlink()
        for other in (place / "visit").iterdir():
            other.unlink()
        run(machine, place, place / "out")
        with ss.engine("full", views()) as here:
            wanted = [bag(here.step({"visit": EPOCHS[0]["visit"]})["counts"])]
        assert changelog(place / "out", "counts") == ([] if lost else wanted)
        (place / "kept").rename(file)
        run(machine, place, place / "out")
        assert changelog(place / "out", "counts") == wanted
