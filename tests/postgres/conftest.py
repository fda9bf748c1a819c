"""One server for tests that share it, and a place of its own for each test."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sharedstate_lite import postgres


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    """One server for the tests that leave it as it was, but for tables."""
    with postgres.Server() as running:
        yield running


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that other users can reach; servers of a test lie in its ``tmp``, their logs in its ``cache``."""
    path = Path(tempfile.mkdtemp(prefix="kit-test-"))
    path.chmod(0o711)
    (path / "tmp").mkdir(mode=0o711)
    monkeypatch.setenv("TMPDIR", str(path / "tmp"))
    monkeypatch.setenv("SHAREDSTATE_LITE_CACHE", str(path / "cache"))
    yield path
    shutil.rmtree(path)
