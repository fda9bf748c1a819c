"""An application without Spark for most tests, Spark in three places for the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from leftovers import left, runtimes, until
from sparks import PLACES, RETRYING, session_on, spark

import sharedstate_lite.spark as kit
from sharedstate_lite import postgres
from sharedstate_lite.worker.handles.driver import DriverServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def running() -> Iterator[DriverServer]:
    """A driver's server without Spark; checks that its end leaves nothing."""
    driver = DriverServer("127.0.0.1", "127.0.0.1", lambda: True)
    yield driver
    driver.close()
    until(lambda: not runtimes(driver) and left(driver) == [])


application = pytest.fixture(running)
common = pytest.fixture(running, scope="module")
"""One application, with one runtime, for the tests of a module that do not kill it."""


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    """A server with a table of products."""
    with postgres.Server() as server:
        numbers = np.arange(1_000)
        names = [f"product {n}" for n in numbers]
        postgres.write(server, "product", pa.table({"id": numbers, "name": names, "price": numbers / 4}))
        yield server


@pytest.fixture(
    scope="session",
    params=["local", *(pytest.param(name, marks=pytest.mark.slow) for name in PLACES if name != "local")],
)
def anywhere(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A session in each of the places; the clusters are slow."""
    if PLACES[request.param]:
        yield session_on(RETRYING if request.param == "local" else PLACES[request.param])
        return
    with kit.Cluster(workers=2) as cluster:
        yield session_on(cluster.url)
        kit.stop()


__all__ = ["anywhere", "application", "common", "server", "spark"]
