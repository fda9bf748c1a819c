"""Ends the Spark session that some rules' tests start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import sharedstate_lite.spark as kit


@pytest.fixture(scope="session", autouse=True)
def _no_session_is_left() -> Iterator[None]:
    yield
    kit.stop()
