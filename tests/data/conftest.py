"""The Spark session of the tests that make a shop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The kit's session; if other tests have one, it is that one."""
    import sharedstate_lite.spark as kit

    yield kit.session()
    kit.stop()
