"""The parts of an epoch: they add up to its time, and their functions exist."""

from __future__ import annotations

import pytest

from bench import epoch, measure


def test_a_part_does_not_contain_the_parts_inside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a function is its part's without what it calls of other parts."""
    now = iter(range(100))
    monkeypatch.setattr(measure, "clock", lambda: float(next(now)))
    parts = epoch.Parts()
    inner = parts.timed("inner", lambda: None)
    outer = parts.timed("outer", lambda: (inner(), inner()))
    outer()
    assert dict(parts.seconds) == {"inner": 2.0, "outer": 3.0}


def test_every_part_is_measured(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part of a small shop's epochs takes some time, and the table has a line for each."""
    monkeypatch.setattr(epoch.Parts, "watch", lambda self: None)
    found = epoch.measured(rows=20, held=100, epochs=3)
    assert set(found) == {*epoch.PARTS, epoch.REST, epoch.CALLS}
    assert found[epoch.CALLS] > 100 and found[epoch.REST] > 0
    lines = epoch.table({"now": found}).splitlines()
    assert [line.split(" | ")[0].strip("| ") for line in lines[2:]] == [*epoch.PARTS, epoch.REST, "sum", epoch.CALLS]


def test_the_functions_of_the_parts_are_called() -> None:
    """In a process of its own, every part has taken some time."""
    import json
    import subprocess
    import sys

    command = [sys.executable, epoch.__file__, "--child", str(epoch.ROOT), "--rows", "20", "--held", "100"]
    told = json.loads(subprocess.run([*command, "--epochs", "3"], check=True, stdout=subprocess.PIPE).stdout)
    assert all(told[part] > 0 for part in epoch.PARTS)
