"""JupyterLab as a child process: started, waited for, ended with all that it started."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO

from sharedstate_lite.doctor.lab import kin
from sharedstate_lite.doctor.lab.watch import Watch
from sharedstate_lite.errors import Error
from sharedstate_lite.system.cache import cache_dir

FIRST_PORT = 8888
"""Taken if it is free; JupyterLab tries the next ones, then any, without a gap between looking and taking."""
START_SECONDS = 120.0
END_SECONDS = 20.0
KEPT_LOGS = 10
SETTINGS = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}
"""JupyterLab's own settings where they differ here: without this it asks each newcomer whether to fetch its news."""


def surroundings(token: str, mark: str) -> dict[str, str]:
    """The child's environment variables: Jupyter's and IPython's own files in the caches, this Python first."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "IPYTHON"))}
    programs = str(Path(sys.executable).parent)
    return {
        **kept,
        "JUPYTER_CONFIG_DIR": str(cache_dir("jupyter", "config")),
        "JUPYTER_DATA_DIR": str(cache_dir("jupyter", "data")),
        "JUPYTER_RUNTIME_DIR": str(cache_dir("jupyter", "runtime")),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "JUPYTER_TOKEN": token,
        kin.VARIABLE: mark,
        "IPYTHONDIR": str(cache_dir("jupyter", "ipython")),
        "PATH": os.pathsep.join([programs, kept.get("PATH", os.defpath)]),
        **({"VIRTUAL_ENV": sys.prefix} if sys.prefix != sys.base_prefix else {}),
    }


def settle(config: Path) -> None:
    """Write :data:`SETTINGS` as defaults, which a person's own choice in the Settings menu overrides."""
    folder = config / "labconfig"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "default_setting_overrides.json").write_text(json.dumps(SETTINGS))


def options(root: Path, page: str) -> list[str]:
    """JupyterLab's arguments. No news, no extension catalogue: it asks nothing of the network."""
    return [
        "--no-browser",
        "--allow-root",
        "--ip=127.0.0.1",
        f"--port={FIRST_PORT}",
        "--ServerApp.port_retries=50",
        f"--ServerApp.root_dir={root}",
        f"--LabApp.default_url=/{page}",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly",
        "--KernelSpecManager.allowed_kernelspecs=python3",
    ]


class Server:
    """A JupyterLab that was asked to start on ``root``; ``page`` is where its address leads.

    ``log`` is the file that its output goes to. :meth:`ready` waits for it,
    :meth:`stop` ends it.
    """

    def __init__(self, root: Path, page: str) -> None:
        self._token = secrets.token_hex(24)
        self._mark = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._page = page
        logs = cache_dir("logs")
        for old in sorted(logs.glob("jupyter-*.log"), key=lambda path: path.stat().st_mtime)[: -KEPT_LOGS + 1]:
            old.unlink(missing_ok=True)
        self.log = logs / f"jupyter-{os.getpid()}.log"
        environment = surroundings(self._token, self._mark)
        self._runtime = Path(environment["JUPYTER_RUNTIME_DIR"])
        settle(Path(environment["JUPYTER_CONFIG_DIR"]))
        with self.log.open("wb") as sink:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sharedstate_lite.doctor.lab.serve", *options(root, page)],
                cwd=root,
                env=environment,
                stdin=subprocess.PIPE,  # never written to: its closing tells the child that we are gone
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the launcher, which then ends the child in order
            )
        self._pipe: IO[bytes] | None = self._process.stdin

    def ready(self, watch: Watch) -> str:
        """Wait until the page is served. Returns its address, token included; raises Error where it never is."""
        limit = time.monotonic() + START_SECONDS
        while time.monotonic() < limit:
            if self.ended():
                raise Error(f"JupyterLab: it did not start ({self._last()}): see {self.log}, and run make lab again")
            base = self._base()
            if base and self._answers(f"{base}api/status") and self._answers(f"{base}{self._page}"):
                return f"{base}{self._page}?token={self._token}"
            watch.pause(0.1)
        raise Error(f"JupyterLab: no answer within {START_SECONDS:.0f} s: see {self.log}, and run make lab again")

    def ended(self) -> bool:
        """Whether it runs no more."""
        return self._process.poll() is not None

    def farewell(self) -> None:
        """Raise Error unless it ended because somebody shut it down from its own menu."""
        if self._process.returncode:
            raise Error(
                f"JupyterLab: it ended with status {self._process.returncode}: see {self.log}, run make lab again"
            )

    def _base(self) -> str:
        """The address that it listens on, from the file that it writes then; empty before."""
        try:
            return str(json.loads((self._runtime / f"jpserver-{self._process.pid}.json").read_text())["url"])
        except (OSError, ValueError):
            return ""

    def _answers(self, address: str) -> bool:
        """Whether it serves this address to one who has the token. Proxies are for other machines."""
        request = urllib.request.Request(address, headers={"Authorization": f"token {self._token}"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=10) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _last(self) -> str:
        """The last line of the log."""
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else "without a word"

    def stop(self, watch: Watch) -> None:
        """End it and everything that it started; returns when none of it runs."""
        watch.ending()
        if not self.ended():
            self._process.terminate()
        if self._pipe is not None:
            self._pipe.close()
        limit = time.monotonic() + END_SECONDS
        while not self.ended() and time.monotonic() < limit and not watch.hurry:
            watch.pause(0.1)
        if not self.ended():
            self._process.kill()
        self._process.wait()
        kin.end(self._mark, watch.pause, patience=0 if watch.hurry else 3)
