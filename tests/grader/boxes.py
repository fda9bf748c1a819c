"""A tier of the sandbox, and a piece of Python that runs in it as a service would; a disk whose power can be cut."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader.errors import VoidError
from grader.powercut import Disk
from grader.sandbox import Command, Locked, Plain, Programs, Sandbox, Tree, Walls
from grader.sandbox.programs import ONLY_THE_GRADERS

Mounted = Callable[[], Disk]
LONGEST = 60
"""Seconds that a process may take to end once its output has."""


def sandbox(tier: int, scratch: Path, submission: Path | None = None, programs: Programs = ONLY_THE_GRADERS) -> Sandbox:
    """A tier; skips where the machine has none, with what would give it one."""
    try:
        return {
            1: lambda: Walls(scratch, submission, programs),
            2: lambda: Locked(submission, programs=programs),
            3: lambda: Plain(programs),
        }[tier]()
    except VoidError as error:
        pytest.skip(f"{error}; install or enable it, and this runs")


def said(
    box: Sandbox, code: str, word: str | tuple[str, ...], data: Path, ports: tuple[int, ...] = ()
) -> tuple[int, str]:
    """Exit status and output of a piece of Python that is given words; its children are ended."""
    data.mkdir(exist_ok=True)
    read, write = os.pipe()
    words = ("python3", "-c", code, *((word,) if isinstance(word, str) else word))
    process, tree = box.start(Command("try", words, Path("/"), write, {}, data, (data,), ports))
    os.close(write)
    with os.fdopen(read) as lines:
        text = lines.read()
    status = process.wait(LONGEST)
    tree.kill()
    return status, text


def started(
    box: Sandbox, words: tuple[str, ...], data: Path, folder: Path = Path("/")
) -> tuple[subprocess.Popen[bytes], Tree, str]:
    """A command that goes on, after it has printed a line: its process, all its processes, and the line."""
    data.mkdir(exist_ok=True)
    read, write = os.pipe()
    process, tree = box.start(Command("try", words, folder, write, {}, data, (data,)))
    os.close(write)
    with os.fdopen(read) as lines:
        return process, tree, lines.readline()


@pytest.fixture
def mounted() -> Iterator[Mounted]:
    """Switches a disk on, the same folder each time; skips where the machine cannot have one, with what it lacks.

    Any user may pass through the folder. Below pytest's own folder that changes whenever another pytest starts.
    """
    folder = Path(tempfile.mkdtemp(prefix="powercut-"))
    folder.chmod(0o755)

    def powered() -> Disk:
        one = Disk(folder / "disk", folder / "place")
        try:
            one.mount()
        except VoidError as error:
            pytest.skip(f"{error}; then this runs")
        return one

    yield powered
    shutil.rmtree(folder)
