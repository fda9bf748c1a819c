"""An application without Spark for most tests, Spark in three places for the others; nothing is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from remains import left, runtimes, until
from sparks import PLACES, session_on, spark

import sharedstate_lite.spark as kit
from sharedstate_lite.worker.driver import Driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Switch:
    """An application that runs until it is switched off."""

    def __init__(self) -> None:
        self.on = True

    def __call__(self) -> bool:
        return self.on


@pytest.fixture
def application() -> Iterator[Driver]:
    """A driver's side without Spark; when it is closed, nothing is left."""
    switch = Switch()
    driver = Driver("127.0.0.1", "127.0.0.1", switch)
    yield driver
    driver.close()
    until(lambda: not runtimes(driver) and left(driver) == [])


@pytest.fixture(
    scope="session",
    params=["local", *(pytest.param(name, marks=pytest.mark.slow) for name in PLACES if name != "local")],
)
def anywhere(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A session in each of the places; those that take long to start are slow."""
    if PLACES[request.param]:
        yield session_on(PLACES[request.param])
        return
    with kit.Cluster(workers=2) as cluster:
        yield session_on(cluster.url)
        kit.stop()


__all__ = ["anywhere", "application", "spark"]
