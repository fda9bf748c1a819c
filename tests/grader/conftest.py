"""A teacher with the tiny lab of `classes`, for every test of class grading."""

from __future__ import annotations

from pathlib import Path

import pytest
from classes import Teacher


@pytest.fixture
def teacher(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Teacher:
    """A teacher in a folder of their own."""
    return Teacher(tmp_path, capsys)
