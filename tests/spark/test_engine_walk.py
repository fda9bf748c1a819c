"""The seed's view on Spark, epoch by epoch, beside the in-process engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import sharedstate_lite as ss

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sharedstate_lite.spark.live import SparkEngine

RESULT = (
    "CREATE VIEW result AS SELECT category, MAX(length) AS max_length "
    "FROM info JOIN visit USING (product) GROUP BY category"
)
SEED: list[dict[str, Any]] = [
    {
        "info": [(("Apple", "Fruit"), 1), (("Banana", "Fruit"), 1), (("Carrot", "Vegetable"), 1)],
        "visit": [(("Apple", "Alice", 10), 1), (("Banana", "Bob", 20), 1), (("Carrot", "Dan", 30), 1)],
    },
    {"visit": [(("Apple", "Eve", 40), 1)]},
    {"visit": [(("Apple", "Eve", 40), -1)]},
    {"info": [(("Carrot", "Vegetable"), -1), (("Carrot", "Fruit"), 1)]},
]


def seed_view() -> ss.View:
    """The seed's view in a catalog of its own."""
    catalog = ss.Catalog(info="product STRING, category STRING", visit="product STRING, user STRING, length INT")
    return catalog.view(RESULT)


@pytest.fixture(scope="module")
def engines(spark: SparkSession) -> Iterator[tuple[SparkEngine, ss.Engine]]:
    """Full state on Spark and in process."""
    view = seed_view()
    with ss.spark.engine("full", [view], spark) as there, ss.engine("full", [view]) as here:
        yield there, here


def test_the_seed_is_the_same_on_spark(engines: tuple[SparkEngine, ss.Engine]) -> None:
    """Each epoch's changes, the whole view and its keys equal those of the in-process engine."""
    there, here = engines
    for step in SEED:
        assert there.step(step)["result"] == here.step(step)["result"]
    assert there.read("result").equals(here.read("result"))
    for key in ("Fruit", "Vegetable"):
        assert there.read("result", key=key).equals(here.read("result", key=key))


def test_an_epoch_that_only_a_kernel_can_refuse(engines: tuple[SparkEngine, ss.Engine]) -> None:
    """A retraction of what is not there fails with the in-process error; the next step works."""
    there, here = engines
    bad = {"visit": [(("Apple", "Eve", 41), -1)]}
    errors = []
    for engine in (there, here):
        with pytest.raises(ss.RowError) as caught:
            engine.step(bad)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
    assert there.epoch == here.epoch
    good = {"visit": [(("Apple", "Eve", 41), 1)]}
    assert there.step(good)["result"] == here.step(good)["result"]
