"""The order of things: doctor, the example in the terminal, JupyterLab, and its address last."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import webbrowser
from pathlib import Path

from sharedstate_lite.doctor.lab.server import Server
from sharedstate_lite.doctor.lab.watch import Ended, Watch
from sharedstate_lite.errors import Error
from sharedstate_lite.system.cache import checkout

START_HERE = "notebooks/00-start-here.ipynb"
BROKEN = 2
"""The doctor's exit status where something is broken, which may be Spark alone."""


def main(arguments: list[str] | None = None) -> int:
    """The command line. Returns 0 when the lab was ended as it should be, 1 where it could not start."""
    parser = argparse.ArgumentParser(
        prog="python -m sharedstate_lite.doctor.lab", description="Doctor, example, JupyterLab."
    )
    parser.add_argument("--no-browser", action="store_true", help="open no browser, even where there is one")
    parser.add_argument("--watch-parent", action="store_true", help="end when the process that called this ends")
    asked = parser.parse_args(arguments)
    open_streams()
    with Watch(parent=asked.watch_parent) as watch:
        return lab(watch, browser=not asked.no_browser)


def lab(watch: Watch, *, browser: bool) -> int:
    """All of it, until the watch says that it is time to end. Returns the exit status."""
    server: Server | None = None
    try:
        root = checkout() or Path.cwd()
        if run("sharedstate_lite.doctor", "--short") == BROKEN and not loads("sharedstate_lite.lessons.demo"):
            raise Error("the kit does not load: mend what the lines marked FAIL name; make clean, then make lab")
        print(flush=True)
        page = f"lab/tree/{START_HERE}" if (root / START_HERE).is_file() else "lab"
        server = Server(root, page)  # it starts while the example runs
        if status := run("sharedstate_lite.lessons.demo"):
            raise Error(f"the example ended with status {status}: see the lines above; make clean, then make lab")
        address = server.ready(watch)
        if browser:
            show(address)
        print(f"\nJupyterLab is running; its log is {server.log}", flush=True)
        print("Open this address in a browser; Ctrl-C here ends it:", flush=True)
        print(address, flush=True)
        while not server.ended():
            watch.pause(0.5)
        server.farewell()
        return 0
    except Ended:
        with contextlib.suppress(OSError):
            print("\nlab: ending JupyterLab and its kernels", flush=True)
        return 0
    except BrokenPipeError:  # nobody reads what we print any more
        return 1
    except (Error, OSError) as error:
        print(f"lab: {error}", file=sys.stderr, flush=True)
        return 1
    finally:
        if server is not None:
            server.stop(watch)


def open_streams() -> None:
    """Give standard input, output and error a file where the caller closed them, so that none of ours lands there."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def run(module: str, *arguments: str) -> int:
    """Run a module of ours to its end, in a session of its own: Ctrl-C is for us. Returns its exit status."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments], stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        return process.wait()
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise


def loads(module: str) -> bool:
    """Whether a module can be imported, tried in a process of its own."""
    command = [sys.executable, "-c", f"import {module}"]
    return not subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode


def show(address: str) -> None:
    """Open a browser where there is a person with a display; otherwise, and where that fails, do nothing."""
    display = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if not display or os.geteuid() == 0 or not sys.stdout.isatty():
        return
    try:
        browser = webbrowser.get()
        if type(browser) is not webbrowser.GenericBrowser:  # those run in this terminal and hold it
            browser.open(address)
    except (webbrowser.Error, OSError):
        return
