"""The memory of a lesson: which processes count."""

from __future__ import annotations

import os
import subprocess
import sys

from bench.student import MARK, sample

CHILD = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"


def test_a_process_and_its_child_count_and_no_other() -> None:
    """All that inherit the mark count, each with its memory; those with another mark, and this test, do not."""
    settings = {**os.environ, MARK: "mine"}
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], env=settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"  # both are there
        found = sample("mine")
        assert len(found) == 2 and all(size > 2**20 for _, size in found)
        assert sample("other") == []
        process.communicate("\n")
    assert sample("mine") == []
