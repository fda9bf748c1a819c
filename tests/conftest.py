"""What holds for every test: one SCALE, fixed seeds, caches in the caches folder.

SCALE is ``small`` (the default, what ``make test`` runs) or ``full`` (``make slow``);
the fixture ``scale`` gives it to a test, and hypothesis draws more examples at
``full``. Examples are derived from the test itself, so a run repeats the last one.

`make test` runs two processes (pytest-xdist). A Spark session is one a process and takes
seconds to start, so all tests that use one stay together; so do the tests of a file that
share a server. The tests of the other files go to whichever process is free.
"""

from __future__ import annotations

import os

import hypothesis
import hypothesis.configuration
import pytest

from sharedstate_lite.cache import cache_dir

SCALES = {"small": 20, "full": 300}
"""SCALE, and how many examples hypothesis draws by default."""

os.environ.setdefault("SCALE", "small")
hypothesis.configuration.set_hypothesis_home_dir(cache_dir("hypothesis"))
for _name, _examples in SCALES.items():
    hypothesis.settings.register_profile(
        _name,
        derandomize=True,
        deadline=None,
        max_examples=_examples,
        suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose the profile that SCALE names."""
    if os.environ["SCALE"] not in SCALES:
        raise pytest.UsageError(f"SCALE={os.environ['SCALE']}: it is one of {', '.join(SCALES)}")
    hypothesis.settings.load_profile(os.environ["SCALE"])


SESSIONS = {"spark", "everywhere", "anywhere"}
"""Fixtures that give a Spark session."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say which tests must run in one process."""
    for item in items:
        fixtures = {name: found for name, (*_, found) in item._fixtureinfo.name2fixturedefs.items() if found}  # type: ignore[attr-defined]
        if SESSIONS & set(fixtures) or "on Spark" in item.nodeid:
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif any(found.scope == "module" for found in fixtures.values()):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture(scope="session")
def scale() -> str:
    """``small`` or ``full``."""
    return os.environ["SCALE"]
