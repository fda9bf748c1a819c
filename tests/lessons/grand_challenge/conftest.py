"""One challenger for all tests of this folder, and an application without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sparks import everywhere, last, spark
from ticksdrawn import TRADES

from sharedstate_lite.data import ticks
from sharedstate_lite.lessons.grand_challenge import Challenger, batches
from sharedstate_lite.lessons.grand_challenge.challenger_pb2 import Batch
from sharedstate_lite.worker.handles.driver import DriverServer


@pytest.fixture(scope="session")
def handed_out() -> list[Batch]:
    """40 batches over more than two days, with late trades and events without a price."""
    return list(batches(ticks.table(TRADES, seed=3, symbols=30, per_second=0.02, jitter=400.0), 100, unpriced=0.05))


@pytest.fixture(scope="session")
def challenger(handed_out: list[Batch]) -> Iterator[Challenger]:
    """Whether the process runs."""
    with Challenger(handed_out) as challenger:
        yield challenger


@pytest.fixture
def application() -> Iterator[DriverServer]:
    """A driver's server without Spark."""
    driver = DriverServer("127.0.0.1", "127.0.0.1", lambda: True)
    yield driver
    driver.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests that replace the session last."""
    last(items)


__all__ = ["application", "challenger", "everywhere", "handed_out", "spark"]
