"""One Spark session for all tests that use it, and a way to try what needs a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sharedstate_lite.spark as kit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The shared session."""
    yield kit.session()
    kit.stop()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start ``python -c script`` in an empty folder, with its own cache, so that what it leaves can be seen."""
    begun: list[subprocess.Popen[str]] = []

    def run(script: str, **environment: str | None) -> subprocess.Popen[str]:
        env = {**os.environ, "PYTHONPATH": str(ROOT), "SHAREDSTATE_LITE_CACHE": str(tmp_path / "cache of tests")}
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
