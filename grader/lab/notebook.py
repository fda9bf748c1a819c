"""Run the notebook of a lab. Needs nbclient and ipykernel, which only the authors of labs have."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from ..errors import VoidError

_CELL = 120
"""The time limit of a cell, and of the start of the kernel, in seconds."""
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


class _Here(AsyncKernelManager):
    """A kernel of the Python that runs the build."""

    @property
    def kernel_spec(self) -> KernelSpec:
        return KernelSpec(argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], name="lab")


def run(notebook: Any, folder: Path) -> str:
    """Run a notebook in ``folder``, and return its error, or an empty text. The outputs are left in the notebook."""
    with tempfile.TemporaryDirectory(prefix="nb") as short, tempfile.TemporaryFile("w+") as log:
        # Unix sockets in this folder, instead of ports of this machine.
        manager = _Here(transport="ipc", connection_file=f"{short}/k.json")
        resources = {"metadata": {"path": str(folder)}}
        client = NotebookClient(notebook, km=manager, timeout=_CELL, startup_timeout=_CELL, resources=resources)
        # Predictions of the kit then show their answers, and ask for none.
        settings = {**os.environ, "SHAREDSTATE_LITE_UNATTENDED": "1"}
        try:
            client.execute(env=settings, stdout=log, stderr=log, cleanup_kc=True)
        except (CellExecutionError, CellTimeoutError) as error:
            return _ANSI.sub("", str(error)).strip()
        except (DeadKernelError, AssertionError):
            # On Ctrl-C, nbclient stops the kernel, and then fails with an AssertionError of its own.
            raise VoidError("the kernel of the notebook has stopped; build again") from None
    return ""
