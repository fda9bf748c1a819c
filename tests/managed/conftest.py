"""A PostgreSQL server for the stores that need one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sharedstate_lite import postgres
from sharedstate_lite.managed.stores import remote


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    """One server for all tests of a module, also for stores that are created by name."""
    with postgres.Server() as running, pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote, "_server", lambda: running)
        yield running
