"""What holds for every test: one SCALE, fixed seeds, caches in the caches folder.

SCALE is ``small`` (the default, what ``make test`` runs) or ``full`` (``make slow``);
the fixture ``scale`` gives it to a test, and hypothesis draws more examples at
``full``. Examples are derived from the test itself, so a run repeats the last one.

`make test` runs four processes; :mod:`together` says which tests stay in one.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from typing import Any

import hypothesis
import hypothesis.configuration
import pytest

from sharedstate_lite.system.cache import cache_dir

SCALES = {"small": 20, "full": 300}
"""SCALE, and how many examples hypothesis draws by default."""

os.environ.setdefault("SCALE", "small")
if os.environ["SCALE"] == "small":
    # A JVM that lives for some seconds spends half of its time on compiling what it will not run often.
    # With that alone it keeps a fifth of the code that it would keep else, and sweeps it all the time.
    brief = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
    os.environ.setdefault("SHAREDSTATE_LITE_JAVA_OPTIONS", brief)
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
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell's background job ignores Ctrl-C, and so would all that tests start and then interrupt.
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Which tests run in one process; called by pytest-xdist, with ``-n``."""
    from together import Together

    return Together(config, log)


@pytest.fixture
def notes(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Returns the notes that engines have logged since the last call."""
    caplog.set_level(logging.INFO, "sharedstate_lite")

    def taken() -> list[str]:
        found = [each.getMessage() for each in caplog.records if each.name == "sharedstate_lite"]
        caplog.clear()
        return found

    return taken


@pytest.fixture(scope="session")
def scale() -> str:
    """``small`` or ``full``."""
    return os.environ["SCALE"]
