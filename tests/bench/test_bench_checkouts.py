"""bench/checkouts.py: real systems are started, measured and audited; a wrong balance is told."""

from __future__ import annotations

import sys

import pytest

from bench import checkouts
from grader.wire.client import Generator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the systems need epoll: run this on Linux")


def test_a_system_is_driven_and_audited() -> None:
    """All checkouts of a closed and of an open loop are answered and paid for; a balance that is wrong is seen."""
    with checkouts.running(checkouts.ROOT / "labs" / "checkout" / "fast", 72) as system:
        generator = Generator()
        try:
            before = system.cpu()
            closed, again = system.send(generator, 72), system.send(generator, 72, 2_000)
        finally:
            generator.close()
        assert (closed.status == 200).all() and (again.status == 200).all()
        assert system.cpu() >= before > 0
        assert system.balanced(72) and not system.balanced(73)
        system.ask("payment", "/pay/5/1", "POST")
        assert not system.balanced(72)
