"""The examples of rooms that need a Spark session, run on the one that the tests share."""

from __future__ import annotations

import pytest
from examples import SESSION, documented, run
from pyspark.sql import SparkSession


@pytest.mark.parametrize("package", [name for name, text in documented().items() if SESSION in text])
def test_the_example_of_a_room_on_spark(package: str, spark: SparkSession) -> None:
    """It runs, and prints what the docstring says."""
    run(package)
