"""Run the notebook of a lab. Needs nbclient and ipykernel, which only the authors of labs have.

The notebook runs in a process of its own, because nbclient handles Ctrl-C itself. This file is also the program of that
process: `python notebook.py NOTEBOOK`. It prints the error of the cell that fails.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

_CELL = 120
"""The time limit of a cell, and of the start of the kernel, in seconds."""
_FAILED = 3
"""The exit status if a cell fails."""
_ENDS = 20
"""The time limit in seconds for the end of the process after Ctrl-C."""
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def run(notebook: Path) -> str:
    """Run a notebook in its folder, and return the error of the cell that fails, or an empty text.

    Raises OSError if the kernel stops for another reason.
    """
    words = [sys.executable, "-P", __file__, str(notebook)]
    # Predictions of the kit then show their answers, and do not wait for one.
    env = {**os.environ, "SHAREDSTATE_LITE_UNATTENDED": "1"}
    with subprocess.Popen(words, stdout=-1, stderr=-1, text=True, env=env, start_new_session=True) as process:
        try:
            said, why = process.communicate()
        except BaseException:
            process.terminate()  # nbclient then stops the kernel
            try:
                process.communicate(timeout=_ENDS)
            finally:
                process.kill()
            raise
    if process.returncode not in (0, _FAILED):
        raise OSError(f"the kernel of the notebook has stopped: {why.strip().rpartition(chr(10))[2]}")
    return said.strip()


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
    with tempfile.TemporaryDirectory(prefix="nb") as short, tempfile.TemporaryFile("w+") as log:
        # Unix sockets in this folder, instead of ports of this machine.
        manager = Here(transport="ipc", connection_file=f"{short}/k.json")
        place = {"metadata": {"path": str(path.parent)}}
        client = NotebookClient(notebook, km=manager, timeout=_CELL, startup_timeout=_CELL, resources=place)
        try:
            client.execute(stdout=log, stderr=log, cleanup_kc=True)
        except (CellExecutionError, CellTimeoutError) as error:
            sys.stdout.write(_ANSI.sub("", str(error)))
            return _FAILED
    return 0


if __name__ == "__main__":
    sys.exit(_main(Path(sys.argv[1])))
