"""The launcher behind ``make lab``: runs the doctor, and then JupyterLab until Ctrl-C.

    python -m sharedstate_lite.doctor.lab [--no-browser] [--watch-parent]

When JupyterLab is ready, its address is printed on the last line. Ctrl-C, SIGTERM and SIGHUP stop JupyterLab, its
kernels, and every process that they started. All of these also stop if this process dies, even from SIGKILL. Two
mechanisms ensure this:

- JupyterLab's standard input is a pipe that this process keeps open. When this process exits, the pipe closes, and a
  thread in JupyterLab's process shuts JupyterLab down.
- An environment variable marks JupyterLab's process. Its descendants inherit the variable, so any of them that are
  still running can be found and killed, even if their parent has exited.

JupyterLab works in the folder ``work/`` of the checkout, on copies of the lessons (`copies`). Its settings, log and
runtime files are in the cache folder. The user's own Jupyter configuration is neither read nor changed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import psutil

from sharedstate_lite.doctor.copies import copy_lessons
from sharedstate_lite.doctor.startup import write_startup
from sharedstate_lite.errors import Error
from sharedstate_lite.system.cache import cache_dir, checkout, new_log
from sharedstate_lite.system.notes import show_notes

WORK = "SHAREDSTATE_LITE_WORK"
"""The environment variable that sets the learner's folder. By default, it is ``work`` in the checkout."""
START_HERE = "notebooks/00-start-here.ipynb"
MARK = "SHAREDSTATE_LITE_LAB"
"""The environment variable that marks the processes of one lab."""
SERVE = "--serve"
"""The argument that tells this module to run JupyterLab itself. It comes first; JupyterLab's own arguments follow."""
FIRST_PORT = 8888
"""The first port that JupyterLab tries. If it is taken, JupyterLab tries up to 50 others."""
START_SECONDS = 120.0
"""The time limit for JupyterLab to start listening."""
STOP_SECONDS = 15.0
"""The time limit for JupyterLab to stop its kernels."""
LEFT_SECONDS = 3.0
"""How long to wait for the other marked processes to exit before killing them."""
SETTINGS = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}
"""Default values for JupyterLab's settings. Without this one, JupyterLab asks every new user about its news feed."""
SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Stop(BaseException):
    """Raised in the main thread when the first of the `SIGNALS` arrives."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit status: 0 after an orderly stop, 1 after an error."""
    parser = argparse.ArgumentParser(
        prog="python -m sharedstate_lite.doctor.lab", description="Run the doctor, then JupyterLab."
    )
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    parser.add_argument("--watch-parent", action="store_true", help="also stop when the parent process exits")
    options = parser.parse_args(arguments)
    show_notes()
    try:
        with stop_on_signals():
            lab(browser=not options.no_browser, stopping=parent_stops() if options.watch_parent else lambda: False)
    except (Error, OSError) as error:
        print(f"lab: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


def lab(*, browser: bool, stopping: Callable[[], bool]) -> None:
    """Run the doctor, then JupyterLab until a signal arrives or ``stopping()`` returns True.

    JupyterLab's root is the learner's folder. Raises Error if JupyterLab does not start, or if it exits with an error.
    """
    root, page, kit = Path.cwd(), "lab", checkout()
    if kit is not None:
        root, page = Path(os.environ.get(WORK) or kit / "work").absolute(), f"lab/tree/{START_HERE}"
    server: JupyterServer | None = None
    try:
        run_module("sharedstate_lite.doctor", "--short")
        if kit is not None:
            copy_lessons(root, kit)
        server = JupyterServer(root, page)
        address = server.ready()
        if browser:
            open_browser(address)
        print(f"\nJupyterLab is running; its log is {server.log}", flush=True)
        print(f"To stop it, press Ctrl-C here. To use it, open this address in a browser:\n{address}", flush=True)
        while server.running():
            if stopping():
                raise Stop
            time.sleep(0.5)  # until Ctrl-C, a signal, or the end of the server
        server.check_status()
    except Stop:
        with contextlib.suppress(OSError):  # the terminal may be closed
            print("\nlab: stopping JupyterLab and its kernels", flush=True)
    finally:
        if server is not None:
            server.stop()


@contextlib.contextmanager
def stop_on_signals() -> Iterator[None]:
    """Return a context manager that raises `Stop` on the first of the `SIGNALS` and ignores later ones.

    Under nohup, SIGHUP remains ignored.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise Stop

    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in before.items():
        if handler != signal.SIG_IGN or number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def parent_stops() -> Callable[[], bool]:
    """Return a function that returns True once the parent process, make, has exited or been interrupted.

    GNU make forwards SIGTERM to its recipe. On SIGINT, it only restores the signal's default action and waits for the
    recipe, because a terminal sends SIGINT to both. On Linux, /proc shows that make no longer catches the signal.
    """
    parent = os.getppid()

    def catches_sigint() -> bool:
        try:
            found = re.search(r"^SigCgt:\s*([0-9a-f]+)$", Path(f"/proc/{parent}/status").read_text(), re.MULTILINE)
        except OSError:
            return False
        return bool(found and int(found[1], 16) >> (signal.SIGINT - 1) & 1)

    before = catches_sigint()
    return lambda: os.getppid() != parent or (before and not catches_sigint())


def run_module(module: str, *arguments: str) -> int:
    """Run a module, wait for it to exit, and return its exit status.

    The module runs in a separate session, so that only this process receives Ctrl-C.
    """
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            return process.wait()
        except BaseException:
            process.kill()
            raise


def open_browser(address: str) -> None:
    """Open the address in the default browser if there is a desktop and standard output is a terminal."""
    desktop = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if desktop and sys.stdout.isatty():
        with contextlib.suppress(webbrowser.Error, OSError):
            webbrowser.open(address)


class JupyterServer:
    """JupyterLab in a separate process. ``root`` is its root folder, and ``page`` is the URL path of its first page."""

    def __init__(self, root: Path, page: str) -> None:
        self._token, self._mark = secrets.token_hex(24), secrets.token_hex(8)
        self._page = page
        self.log = new_log("jupyter")
        environment = server_environment(self._token, self._mark)
        self._runtime = Path(environment["JUPYTER_RUNTIME_DIR"])
        settings = Path(environment["JUPYTER_CONFIG_DIR"]) / "labconfig" / "default_setting_overrides.json"
        settings.parent.mkdir(exist_ok=True)
        settings.write_text(json.dumps(SETTINGS))
        write_startup(Path(environment["IPYTHONDIR"]))
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __spec__.name, SERVE, *server_options(root, page)],
                cwd=root,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def ready(self) -> str:
        """Wait until JupyterLab accepts connections, and return the address of its first page, including the token.

        Raises Error if it exits or does not start within `START_SECONDS`.
        """
        deadline = time.monotonic() + START_SECONDS
        file = self._runtime / f"jpserver-{self._process.pid}.json"  # JupyterLab writes it once it is listening
        while time.monotonic() < deadline:
            if not self.running():
                raise Error(f"JupyterLab did not start; see {self.log}, then run make lab again")
            with contextlib.suppress(OSError, ValueError):
                return f"{json.loads(file.read_text())['url']}{self._page}?token={self._token}"
            time.sleep(0.1)
        raise Error(f"JupyterLab did not start within {START_SECONDS:.0f} s; see {self.log}, then run make lab again")

    def running(self) -> bool:
        """Return whether JupyterLab's process is still running."""
        return self._process.poll() is None

    def check_status(self) -> None:
        """Raise Error if JupyterLab exited with an error. Shutting it down from its own menu is not an error."""
        if status := self._process.returncode:
            raise Error(f"JupyterLab exited with status {status}; see {self.log}, then run make lab again")

    def stop(self) -> None:
        """Stop JupyterLab, its kernels and the processes that they started, and wait until all of them have exited."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS + LEFT_SECONDS + 5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        stop_marked(self._mark)


def server_environment(token: str, mark: str) -> dict[str, str]:
    """Return JupyterLab's environment variables: its folders are in the cache, and this Python is first on the PATH."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "IPYTHON"))}
    return {
        **kept,
        "JUPYTER_CONFIG_DIR": str(cache_dir("jupyter", "config")),
        "JUPYTER_DATA_DIR": str(cache_dir("jupyter", "data")),
        "JUPYTER_RUNTIME_DIR": str(cache_dir("jupyter", "runtime")),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "JUPYTER_TOKEN": token,
        "IPYTHONDIR": str(cache_dir("jupyter", "ipython")),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", os.defpath)]),
        **({"VIRTUAL_ENV": sys.prefix} if sys.prefix != sys.base_prefix else {}),
        MARK: mark,
    }


def server_options(root: Path, page: str) -> list[str]:
    """Return JupyterLab's command-line options.

    They turn off the features that need network access: news, update checks and the extension catalogue.
    """
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


def serve(arguments: list[str]) -> None:
    """Run JupyterLab in this process until it exits or standard input closes, then stop everything that it started."""
    from jupyterlab.labapp import main as jupyterlab

    mark = os.environ[MARK]

    def stop_with_launcher() -> None:
        os.read(0, 1)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(STOP_SECONDS)  # the process normally exits during this sleep
        stop_marked(mark)
        os._exit(1)

    threading.Thread(target=stop_with_launcher, daemon=True).start()
    try:
        jupyterlab(argv=arguments)
    finally:
        stop_marked(mark)


def stop_marked(mark: str) -> None:
    """Wait `LEFT_SECONDS` for the marked processes to exit, then kill those that are still running."""
    psutil.wait_procs(marked(mark), timeout=LEFT_SECONDS)
    for _ in range(5):  # a process may start another one before it is killed
        if not (left := marked(mark)):
            return
        for each in left:
            with contextlib.suppress(psutil.Error):
                each.kill()
        psutil.wait_procs(left, timeout=1)


def marked(mark: str) -> list[psutil.Process]:
    """Return the running processes with this mark, excluding this process."""
    found = []
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error):  # zombies, and processes of other users
            if each.pid != os.getpid() and each.environ().get(MARK) == mark:
                found.append(each)
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == [SERVE]:
        serve(sys.argv[2:])
    else:
        sys.exit(main())
