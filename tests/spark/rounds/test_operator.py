"""The start of a query: an operator that does not load the kit, and SPARK_HOME without PySpark's zip."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.types import StringType, StructType

from sharedstate_lite.spark.rounds.operator import LazyProcessor
from sharedstate_lite.spark.session import home

if TYPE_CHECKING:
    pass

TEXT = StructType().add("text", StringType())

DECLARES = """
import pickle, sys
class Handle:
    asked = []
    def getValueState(self, name, schema): self.asked.append((name, schema.simpleString()))
    def getMapState(self, name, key, value): self.asked.append((name, key.simpleString(), value.simpleString()))
operator = pickle.load(sys.stdin.buffer)
operator.init(Handle())
operator.close()
print(Handle.asked)
print([name for name in ("numpy", "pandas", "pyarrow", "sharedstate_lite") if name in sys.modules])
"""


FREEZES = """
import gc, pickle
from sharedstate_lite.spark.rounds.worker import unpickled
unpickled(pickle.dumps("one"))
frozen = gc.get_freeze_count()
late = [[] for _ in range(1000)]
unpickled(pickle.dumps("two"))
print(frozen > 10_000, any(each is late for each in gc.get_objects()))
"""


class Told(NamedTuple):
    """What the work has received."""

    work: Any
    states: Any
    row: int


class Kept:
    """Work that returns its arguments, and notes that it was closed."""

    def __init__(self) -> None:
        self.ended = False

    def rows(self, states: Mapping[str, Any], rows: Iterator[Any]) -> Iterator[Any]:
        yield from (Told(self, states, row) for row in rows)

    def close(self) -> None:
        self.ended = True


class Handle:
    """A handle whose state variables are their names."""

    def getValueState(self, name: str, schema: StructType) -> str:
        return name

    def getMapState(self, name: str, key: StructType, value: StructType) -> str:
        return name


def test_a_lazy_processor_needs_only_pyspark(tmp_path: Path) -> None:
    """The process that asks for the state variables does not load the kit, pandas or Arrow."""
    raw = cloudpickle.dumps(LazyProcessor(Kept(), {"head": TEXT}, {"runs": (TEXT, TEXT)}))
    done = subprocess.run([sys.executable, "-c", DECLARES], input=raw, capture_output=True, cwd=tmp_path)
    assert done.stderr == b""
    text = "struct<text:string>"
    assert done.stdout.decode().splitlines() == [str([("head", text), ("runs", text, text)]), "[]"]


def test_the_work_is_unpickled_once_and_closed() -> None:
    """It receives the states and the rows of each key; close is passed on, and does nothing before any rows."""
    operator = LazyProcessor(Kept(), {"head": TEXT}, {"runs": (TEXT, TEXT)})
    operator.init(Handle())  # type: ignore[arg-type]
    operator.close()
    told: list[Any] = [row for rows in ([1, 2], [3]) for row in operator.handleInputRows("key", iter(rows), None)]
    assert told == [Row(work=told[0].work, states={"head": "head", "runs": "runs"}, row=n) for n in (1, 2, 3)]
    assert len({id(work) for work, *_ in told}) == 1 and not told[0][0].ended
    operator.close()
    assert told[0][0].ended


def test_modules_are_frozen_once() -> None:
    """The first work in a worker: its modules are out of garbage collections. What comes later, bins too, is not."""
    done = subprocess.run([sys.executable, "-c", FREEZES], capture_output=True, text=True)
    assert done.stderr == "" and done.stdout.split() == ["True", "True"]


def test_the_linked_home_is_the_package(tmp_path: Path) -> None:
    """All parts are there, with the zip or without; linking again changes nothing."""
    for _ in range(2):
        folder = home.linked(tmp_path / "home")
        assert folder == tmp_path / "home" and (folder / "jars").samefile(home.package() / "jars")
        there = {part.name for part in home.package().iterdir()} - {"work"}
        assert {part.name for part in folder.iterdir()} == there - {"python"}


def test_without_links_the_package_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without permission to create links, SPARK_HOME is the package."""

    def refuses(*_: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(Path, "symlink_to", refuses)
    assert home.linked(tmp_path / "home") == home.package()
