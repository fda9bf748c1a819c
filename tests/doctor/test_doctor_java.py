"""The doctor about Java: one that hangs, and one that may not have the memory that it wants."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sharedstate_lite.doctor import engine, machine
from sharedstate_lite.doctor.finding import Level
from sharedstate_lite.spark.session import java

ROOT = Path(__file__).resolve().parents[2]


def program(folder: Path, *lines: str) -> None:
    """A java of one's own below the folder."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    (folder / "bin" / "java").chmod(0o755)


def test_java_that_gives_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for once, for a short time, and named as passed over."""
    program(tmp_path, f"echo asked >> '{tmp_path}/log'", "exec sleep 60")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(engine, "JAVA_SECONDS", 0.5)
    found = engine.java()
    assert engine.classes().level in (Level.OK, Level.NOTE)
    assert (tmp_path / "log").read_text() == "asked\n"
    assert found.level is Level.NOTE and "gives no answer within 0.5 s" in found.text and "JAVA_HOME" in found.mend


def test_java_under_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no Java starts and addresses are limited, the limit is what is to be mended; memory warns of it too."""
    monkeypatch.setattr(machine, "limit", lambda: 1.5)
    monkeypatch.setattr(java, "_candidates", lambda: iter([]))
    found = engine.java()
    assert found.level is Level.FAIL and "ulimit -v" in found.mend
    assert machine.memory().level is Level.WARN and "1.5 GiB" in machine.memory().text


def test_limit_of_this_process() -> None:
    """The limit is that of addresses, in GiB; without one there is none."""
    code = (
        "import resource; from sharedstate_lite.doctor import machine; before = machine.limit();"
        "resource.setrlimit(resource.RLIMIT_AS, (16 << 30, resource.getrlimit(resource.RLIMIT_AS)[1]));"
        "print(before, machine.limit())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split()[1] == "16.0"
