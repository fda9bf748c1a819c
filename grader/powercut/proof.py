"""Test a power cut on this machine, from inside the sandbox of the services.

A process in the sandbox writes three files: one with fsync, one with O_DSYNC, and one without a sync. After a cut, only
the first two must contain their data. The test also shows whether the services' user can access the mount.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from ..errors import VoidError
from ..sandbox import Command, Sandbox
from .disk import Disk

_LONGEST = 20.0
"""The time limit of the process in seconds."""
_WRITES = """
import os, sys
os.chdir(sys.argv[1])
for name, flags in (("synced", 0), ("dsync", os.O_DSYNC), ("dropped", 0)):
    file = os.open(name, os.O_WRONLY | os.O_CREAT | flags, 0o600)
    os.write(file, name.encode())
    if name == "synced":
        os.fsync(file)
"""
_AFTER = {"synced": b"synced", "dsync": b"dsync", "dropped": b""}


def prove(disk: Disk, sandbox: Sandbox, scratch: Path) -> None:
    """Check that a power cut loses exactly the unsynced data. Leaves the disk unmounted.

    Raises VoidError with the reason and the remedy if the check fails.
    """
    disk.mount()
    try:
        data = disk.place / "proof"
        data.mkdir()
        _write(sandbox, data, scratch)
        disk.cut()
    finally:
        disk.close()
    found = {name: (disk.folder / "proof" / name).read_bytes() for name in _AFTER}
    if found != _AFTER:
        raise VoidError(f"the data after a power cut is {found}, not {_AFTER}; use another libfuse")


def _write(sandbox: Sandbox, data: Path, scratch: Path) -> None:
    home = scratch / "proof"
    home.mkdir(exist_ok=True)
    with tempfile.TemporaryFile() as output:
        words = ("python3", "-c", _WRITES, str(data))
        process, tree = sandbox.start(Command("proof", words, Path("/"), output.fileno(), {}, home, (data,)))
        try:
            code = process.wait(_LONGEST)
        except subprocess.TimeoutExpired:
            code = -1
        finally:
            tree.kill()
            process.wait()
        if code:
            output.seek(0, os.SEEK_SET)
            said = output.read().decode(errors="replace").strip().rpartition("\n")[2] or f"exit {code}"
            raise VoidError(f"a process in the sandbox cannot write to the disk for the power cuts ({said})")
