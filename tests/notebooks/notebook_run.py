"""Runs a notebook top to bottom in this environment's own Python, and hears all that is said.

The kernel is started by hand: a kernel of the same name that a user has registered
would otherwise run instead.
"""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from sharedstate_lite.show.checks import UNATTENDED

ROOT = Path(__file__).resolve().parents[2]


RACE = "ERROR:tornado.general:Uncaught exception in ZMQStream callback"
"""ipykernel says this if its event loop stops before it has answered the request to shut down. It is no notebook's."""

TIMEOUTS = {"small": 300, "full": 3600}
"""By SCALE: after how many seconds a cell is one that never ends."""


class Here(AsyncKernelManager):
    """A kernel of this very interpreter."""

    @property
    def kernel_spec(self) -> KernelSpec:
        return KernelSpec(argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], name="here")


@dataclass(frozen=True)
class Ran:
    """What a run said: an error or none, the standard error of cells, what the kernel itself said."""

    error: str
    stderr: list[str]
    kernel: str


def run(notebook: Any, folder: Path = ROOT / "notebooks", timeout: int | None = None, attended: bool = False) -> Ran:
    """Run it in ``folder``, importing this checkout; the outputs are left in the notebook.

    ``timeout`` is in seconds a cell; without one, what SCALE allows. ``attended``: as if a reader ran it.
    """
    timeout = timeout or TIMEOUTS[os.environ.get("SCALE", "small")]
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), UNATTENDED: "" if attended else "1"}
    # With it, the kernel would leave standard error alone, which it gathers into cells for a learner.
    settings.pop("PYTEST_CURRENT_TEST", None)
    with tempfile.TemporaryDirectory(prefix="nb") as short, tempfile.TemporaryFile() as said:
        # Sockets in a folder of ours: nothing on the machine's ports, and no warning about them.
        manager = Here(transport="ipc", connection_file=f"{short}/k.json")
        client = NotebookClient(notebook, km=manager, timeout=timeout, resources={"metadata": {"path": str(folder)}})
        sizes = [0]  # of what the kernel had said when each cell ended
        client.on_cell_executed = lambda **_: sizes.append(os.fstat(said.fileno()).st_size)
        error = ""
        try:
            client.execute(env=settings, stdout=said, stderr=said, cleanup_kc=True)
        except CellExecutionError as failed:
            error = str(failed)
        said.seek(0)
        kernel, late = said.read(sizes[-1]).decode(), said.read().decode()
        streams = [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs if o.output_type == "stream"]
        return Ran(error, [o.text for o in streams if o.name == "stderr"], kernel + late * (not late.startswith(RACE)))
