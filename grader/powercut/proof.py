"""Whether a power cut can be tried on this machine: tried, behind the sandbox that services run in.

A process of the sandbox writes three files there and syncs one of them, and another by O_DSYNC; after a cut exactly
those must hold what was written. So whether the services' user reaches the mount is known before a service is judged.
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
"""Seconds that it may take."""
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
    """Mount, write, cut, and see. Nothing is mounted afterwards. Raises VoidError, with the reason and the mend."""
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
        raise VoidError(f"a cut does not leave what was synced, and that alone: {found}; take another libfuse")


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
            raise VoidError(f"what runs in the sandbox cannot write to a mounted folder ({said}); try another tier")
