"""`check` in a folder, by processes that lack what macOS or Windows lacks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

BLOCKED = """
import sys
for name in ("resource", "fcntl", "pwd", "grp", "termios"):
    sys.modules[name] = None
import select
for name in ("poll", "epoll"):
    if hasattr(select, name):
        delattr(select, name)
"""
RUN = """
sys.argv = ["grader", COMMAND]
import runpy
runpy.run_module("grader", run_name="__main__", alter_sys=True)
"""
ENV = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}


def checked(folder: Path, command: str = "check") -> subprocess.CompletedProcess[str]:
    """Run `check`, or `break`, in a student's copy with Python alone. Its child process is blocked as well."""
    child = folder / "grader" / "worker" / "child.py"
    child.write_text(BLOCKED + child.read_text(encoding="utf-8"), encoding="utf-8")
    words = [sys.executable, "-S", "-s", "-W", "error", "-X", "utf8=0", "-c", f"{BLOCKED}COMMAND = {command!r}{RUN}"]
    return subprocess.run(words, cwd=folder, env=ENV, capture_output=True, text=True, encoding="utf-8", timeout=300)
