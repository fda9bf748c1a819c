"""Run the notebook of a lab. Needs nbclient and ipykernel, which only the authors of labs have.

The notebook runs in a process of its own, because nbclient handles Ctrl-C itself. This file is also the program of that
process: `python notebook.py NOTEBOOK`. It prints the error of the cell that fails.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

_CELL = 120
"""The time limit of a cell, and of the start of the kernel, in seconds."""
_FAILED = 3
"""The exit status if a cell fails."""
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def run(notebook: Path) -> str:
    """Run a notebook in its folder, and return the error of the cell that fails, or an empty text.

    The folder above gets the sockets of the kernel. Raises OSError if the kernel stops for another reason.
    """
    # Predictions of the kit then show their answers, and do not wait for one.
    env = {**os.environ, "SHAREDSTATE_LITE_UNATTENDED": "1"}
    # After Ctrl-C, this process is killed, and its kernel ends, because its parent has ended.
    words = [sys.executable, "-P", __file__, str(notebook)]
    done = subprocess.run(words, capture_output=True, text=True, env=env, start_new_session=True)
    if done.returncode not in (0, _FAILED):
        raise OSError(f"the kernel of the notebook has stopped: {done.stderr.strip().rpartition(chr(10))[2]}")
    return done.stdout.strip()


def _main(path: Path) -> int:
    import nbformat
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError

    class Here(AsyncKernelManager):
        """A kernel of this Python."""

        @property
        def kernel_spec(self) -> KernelSpec:
            return KernelSpec(argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], name="lab")

    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    # Unix sockets above the notebook's folder, instead of ports of this machine.
    manager = Here(transport="ipc", connection_file=str(path.parents[1] / "k.json"))
    place = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(notebook, km=manager, timeout=_CELL, startup_timeout=_CELL, resources=place)
    try:
        client.execute(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cleanup_kc=True)
    except (CellExecutionError, CellTimeoutError) as error:
        sys.stdout.write(_ANSI.sub("", str(error)))
        return _FAILED
    return 0


if __name__ == "__main__":
    sys.exit(_main(Path(sys.argv[1])))
