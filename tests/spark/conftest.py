"""One Spark session for all tests that use it, and a fixture for scripts that need their own process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from caches import own_cache
from sparks import Start, everywhere, kill_workers, last, session_on

import sharedstate_lite.spark as kit
from sharedstate_lite.spark.session.settings import MASTER, VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that replace the session come last."""
    last(items)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session as a user starts it, in which a task that fails is not run again."""
    yield session_on(os.environ.get(VARIABLE) or MASTER)
    kit.stop()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start ``python -c script`` in an empty folder, with its own cache, so that a test sees which files it leaves.

    The archive of Spark's classes, and the SPARK_HOME that belongs to it, are those of the real cache.
    """
    begun: list[subprocess.Popen[str]] = []
    cache = own_cache(tmp_path / "cache of tests", "classes", "home")

    def run(script: str, **environment: str | None) -> subprocess.Popen[str]:
        env = {**os.environ, "PYTHONPATH": str(ROOT), "SHAREDSTATE_LITE_CACHE": str(cache)}
        for name, value in environment.items():
            env.pop(name, None)
            if value is not None:
                env[name] = value
        (tmp_path / "here").mkdir(exist_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script)],
            cwd=tmp_path / "here",
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        begun.append(process)
        return process

    yield run
    for process in begun:
        if process.poll() is None:
            process.kill()
        process.communicate()


__all__ = ["everywhere", "kill_workers"]
