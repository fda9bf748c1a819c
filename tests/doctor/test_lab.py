"""``make lab`` as a person runs it: real processes, a real kernel, every way to stop it."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from caches import own_cache
from jupyter_client.blocking.client import BlockingKernelClient

from sharedstate_lite.doctor import lab

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/(\S+)\?token=(\w+)\n")
MAKE = ["make", "lab", "SETUP=:", f"VENV={sys.executable}"]
"""The Makefile's own recipe, in the environment that the tests run in."""
SERVER = [
    sys.executable,
    "-c",
    "from pathlib import Path; from sharedstate_lite.doctor.lab import JupyterServer; "
    "server = JupyterServer(Path.cwd(), 'lab'); print(server.ready(), flush=True); server._process.wait()",
]
"""JupyterLab alone, without the doctor."""

PROGRAM = "import subprocess as s; print(s.Popen(['python', '-c', 'import time; time.sleep(3600)']).pid, end='')"
"""Kernel code that starts a program which runs for an hour; ``python`` is the environment's, by the PATH."""
SPARK = (
    "import psutil; from sharedstate_lite.spark import session; session(); "
    "print(*[p.pid for p in psutil.Process().children(recursive=True) if p.name() == 'java'], end='')"
)
"""Kernel code that starts a Spark session and prints the JVM's process id."""


class Lab:
    """A running lab: its output so far, its address, its processes."""

    def __init__(self, cache: Path, command: list[str], **variables: str) -> None:
        self.cache = own_cache(cache)
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "SHAREDSTATE_LITE_CACHE": str(cache), lab.WORK: str(cache / "work"), **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.output = ""
        self.all: list[psutil.Process] = []

    def read(self, until: Callable[[], bool]) -> None:
        """Read the output until the condition holds; fails at the end of the output or after three minutes."""
        assert self.process.stdout is not None
        limit = time.monotonic() + 180
        while not until():
            assert time.monotonic() < limit, self.output
            if select.select([self.process.stdout], [], [], 0.2)[0]:
                chunk = os.read(self.process.stdout.fileno(), 65536)
                assert chunk, self.output
                self.output += chunk.decode()

    def started(self) -> re.Match[str]:
        """Wait for the address. Returns its match: port, page, token."""
        self.read(lambda: ADDRESS.search(self.output) is not None)
        found = ADDRESS.search(self.output)
        assert found
        return found

    def ask(self, path: str, body: bytes | None = None) -> Any:
        """Send a request to JupyterLab, as its page does."""
        found = self.started()
        request = urllib.request.Request(f"http://127.0.0.1:{found[1]}/{path}", data=body)
        request.add_header("Authorization", f"token {found[3]}")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def kernel(self, code: str = PROGRAM) -> int:
        """Start a kernel and run code in it that starts a program. Returns the process id that it prints."""
        kernel = self.ask("api/kernels", b"{}")
        file = self.cache / "jupyter/runtime" / f"kernel-{kernel['id']}.json"
        client = BlockingKernelClient(connection_file=str(file))
        client.load_connection_file()
        client.start_channels(hb=False)  # a busy machine delays heartbeats by more than the second they may take
        try:
            client.wait_for_ready(timeout=120)
            output: list[str] = []
            client.execute_interactive(
                code + "; import sys; print('', sys.executable)",
                output_hook=lambda message: output.append(message["content"].get("text", "")),
                timeout=180,
            )
        finally:
            client.stop_channels()
        number, _, executable = "".join(output).strip().partition(" ")
        assert executable == sys.executable
        return int(number)

    def processes(self) -> list[psutil.Process]:
        """The first process and everything below it, remembered for the end."""
        top = psutil.Process(self.process.pid)
        self.all = [top, *top.children(recursive=True)]
        return self.all

    def find(self, argument: str) -> psutil.Process:
        """The process with this argument in its command line."""
        return next(each for each in self.processes() if argument in each.cmdline())

    def running(self) -> list[psutil.Process]:
        """The remembered processes that still run."""
        return [each for each in self.all if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]

    def wait_stopped(self) -> None:
        """Wait until none of the remembered processes runs; fails after a minute."""
        limit = time.monotonic() + 60
        self.output += self.process.communicate(timeout=60)[0].decode()
        while self.running() and time.monotonic() < limit:
            psutil.wait_procs(self.running(), timeout=0.2)
        assert self.running() == [], self.output

    def close(self) -> None:
        """Kill what a failed test left running."""
        for each in self.running():
            each.kill()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Lab]]:
    """Starts labs that share a cache folder, and closes them after the test."""
    labs: list[Lab] = []

    def begin(command: list[str] = MAKE, **variables: str) -> Lab:
        labs.append(Lab(tmp_path / "cache", command, **variables))
        return labs[-1]

    yield begin
    for each in labs:
        each.close()


def test_a_lab_from_start_to_ctrl_c(start: Callable[..., Lab], tmp_path: Path) -> None:
    """The address is the last line and needs its token; the user's own Jupyter settings change nothing; Ctrl-C stops
    make, JupyterLab, the kernel and the kernel's program."""
    own = tmp_path / "own"
    (own / "kernels" / "python3").mkdir(parents=True)
    (own / "jupyter_server_config.py").write_text("raise SystemExit('mine')\n")
    (own / "kernels" / "python3" / "kernel.json").write_text('{"argv": ["/no"], "display_name": "x", "language": "x"}')
    variables = ["JUPYTER_CONFIG_DIR", "JUPYTER_CONFIG_PATH", "JUPYTER_PATH", "JUPYTER_DATA_DIR", "IPYTHONDIR"]
    made = start(**dict.fromkeys(variables, str(own)), http_proxy="http://127.0.0.1:9", HTTP_PROXY="http://127.0.0.1:9")
    found = made.started()
    assert re.search(r"^doctor: \d+ of \d+ ok", made.output, re.MULTILINE) and made.output.endswith(found[0])
    assert len(made.output.splitlines()) <= 12
    assert found[2] == f"lab/tree/{lab.START_HERE}"
    opened = made.ask(f"api/contents/{lab.START_HERE}?content=0")
    assert opened["writable"] and (tmp_path / "cache" / "work" / opened["path"]).is_file()
    assert {"docs", "labs", "notebooks"} <= {each["name"] for each in made.ask("api/contents")["content"]}
    assert made.ask("api/contents/docs/rules.md")["content"].startswith("# ")
    with urllib.request.urlopen(found[0].strip(), timeout=60) as page:
        assert page.status == 200 and b"jupyter" in page.read().lower()
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/api/contents", timeout=60)
    log = re.search(r"its log is (\S+)", made.output)
    assert log and Path(log[1]).is_relative_to(tmp_path) and "127.0.0.1" in Path(log[1]).read_text()
    assert list(made.ask("api/kernelspecs")["kernelspecs"]) == ["python3"]
    setting = made.ask("lab/api/settings/@jupyterlab/apputils-extension:notification")
    assert setting["schema"]["properties"]["fetchNews"]["default"] == "false" and setting["settings"] == {}
    program = made.kernel()
    assert program in [each.pid for each in made.processes()] and len(made.all) >= 5
    os.killpg(made.process.pid, signal.SIGINT)
    made.wait_stopped()
    assert made.process.returncode in (0, 2, -signal.SIGINT) and "Traceback" not in made.output


def test_killed_launcher(start: Callable[..., Lab]) -> None:
    """After SIGKILL of the process that started it, JupyterLab stops itself, its kernel and the kernel's program."""
    made = start(SERVER)
    made.started()
    program = made.kernel()
    assert program in [each.pid for each in made.processes()]
    made.process.kill()
    made.wait_stopped()


ENDINGS: dict[str, Callable[[Lab], None]] = {
    "SIGTERM to all": lambda made: os.killpg(made.process.pid, signal.SIGTERM),
    "SIGKILL to make and launcher": lambda made: os.killpg(made.process.pid, signal.SIGKILL),
    "SIGTERM to make": lambda made: made.process.terminate(),
    "SIGINT to make": lambda made: made.process.send_signal(signal.SIGINT),
    "SIGKILL to make": lambda made: made.process.kill(),
    "SIGKILL to JupyterLab": lambda made: made.find(lab.SERVE).kill(),
}


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
def test_leaves_nothing_running(start: Callable[..., Lab], ending: str) -> None:
    """Every way to stop a lab stops make, the launcher, JupyterLab, the kernel and the kernel's program."""
    if ending == "SIGINT to make" and sys.platform != "linux":
        pytest.skip("needs /proc")
    made = start()
    made.started()
    made.kernel()
    made.processes()
    ENDINGS[ending](made)
    made.wait_stopped()


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["SIGTERM to all", "SIGKILL to make and launcher"])
def test_leaves_no_spark_running(start: Callable[..., Lab], ending: str) -> None:
    """A Spark session in a kernel ends with the lab, its JVM included."""
    made = start()
    jvm = made.kernel(SPARK)
    assert jvm in [each.pid for each in made.processes()]
    ENDINGS[ending](made)
    made.wait_stopped()


@pytest.mark.slow
def test_stopped_while_it_starts(start: Callable[..., Lab]) -> None:
    """Ctrl-C before the address is printed leaves nothing running either."""
    made = start()
    made.read(lambda: "doctor:" in made.output)
    made.processes()
    os.killpg(made.process.pid, signal.SIGINT)
    made.wait_stopped()
    assert not ADDRESS.search(made.output) and "Traceback" not in made.output


def test_no_browser_without_a_desktop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a display, or without a terminal, no browser opens."""

    def never(*arguments: object) -> None:
        raise AssertionError("a browser was opened")

    monkeypatch.setattr(lab.webbrowser, "open", never)
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    lab.open_browser("http://127.0.0.1/")
    monkeypatch.setenv("DISPLAY", ":0")
    lab.open_browser("http://127.0.0.1/")


def test_only_the_first_signal_raises() -> None:
    """The first signal raises Stop and later ones are ignored, so that stopping is never cut short."""
    before = signal.getsignal(signal.SIGTERM)
    with lab.stop_on_signals():
        with pytest.raises(lab.Stop):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is before
