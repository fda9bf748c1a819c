"""The archive of Spark's classes: its command, its path and its failures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sharedstate_lite.errors import Error
from sharedstate_lite.spark.session import classes
from sharedstate_lite.spark.session.java import Java, find_java


def test_the_command_names_the_archive() -> None:
    """It makes the archive if there is none, and prints its path; test_launch.py shows a session that uses it."""
    made = subprocess.run(
        [sys.executable, "-m", "sharedstate_lite.spark.session.classes"], capture_output=True, text=True
    )
    assert made.returncode == 0 and made.stdout.splitlines()[-1].startswith(
        f"classes: {classes.archive(find_java())} ("
    ), made.stdout + made.stderr


def test_without_an_archive_nothing_is_asked_of_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another Java, or another cache, has its own archive, and there are no options before it is made."""
    java = Java(tmp_path / "jdk", "21.0.1", "PATH")
    assert classes.options(java) == ""
    monkeypatch.setenv("SHAREDSTATE_LITE_CACHE", str(tmp_path))
    assert classes.options(find_java()) == "" and classes.archive(java).parent == tmp_path / "classes"
    assert classes.archive(java) != classes.archive(Java(tmp_path / "other", "21.0.1", "PATH"))
    classes.archive(java).touch()
    assert str(classes.archive(java)) in classes.options(java)


def test_a_java_that_archives_nothing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its output is in the message, and no partial file is left."""
    program = tmp_path / "jdk" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho no room here\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("SHAREDSTATE_LITE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(Error, match="cannot archive its own classes .no room here."):
        classes.make(Java(tmp_path / "jdk", "21.0.1", "PATH"))
    assert list((tmp_path / "cache" / "classes").iterdir()) == []
