"""``make lab`` as a person runs it: real processes, a real kernel, every way to end it."""

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
from jupyter_client.blocking.client import BlockingKernelClient

from sharedstate_lite.doctor.lab import kin, launch
from sharedstate_lite.doctor.lab.watch import Ended, Watch

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/(\S+)\?token=(\w+)\n")
MAKE = ["make", "lab", "SETUP=:", f"VENV={sys.executable}"]
"""The Makefile's own recipe, on the environment that the tests run in."""

PROGRAM = "import subprocess as s; print(s.Popen(['python', '-c', 'import time; time.sleep(3600)']).pid, end='')"
"""What a kernel runs: a program that would go on for an hour; `python` is the environment's, by the PATH."""
SPARK = (
    "import psutil; from sharedstate_lite.spark import session; session(); "
    "print(*[p.pid for p in psutil.Process().children(recursive=True) if p.name() == 'java'], end='')"
)
"""What a kernel runs: a Spark session; the process id is the JVM's."""


class Lab:
    """A running `make lab`: what it has printed, its address, its processes."""

    def __init__(self, cache: Path, command: list[str] = MAKE, **variables: str) -> None:
        self.cache = cache
        self.make = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "SHAREDSTATE_LITE_CACHE": str(cache), **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.said = ""
        self.all: list[psutil.Process] = []

    def read(self, until: Callable[[], bool], seconds: float = 90) -> None:
        """Read what it prints until the condition holds; fails after the time or at the end of its output."""
        assert self.make.stdout is not None
        limit = time.monotonic() + seconds
        while not until():
            assert time.monotonic() < limit, self.said
            if select.select([self.make.stdout], [], [], 0.2)[0]:
                chunk = os.read(self.make.stdout.fileno(), 65536)
                assert chunk, self.said
                self.said += chunk.decode()

    def started(self) -> re.Match[str]:
        """Wait for the address. Returns its match: port, page, token."""
        self.read(lambda: ADDRESS.search(self.said) is not None)
        found = ADDRESS.search(self.said)
        assert found
        return found

    def ask(self, path: str, body: bytes | None = None) -> Any:
        """Ask JupyterLab's own interface, as the page does."""
        found = self.started()
        request = urllib.request.Request(f"http://127.0.0.1:{found[1]}/{path}", data=body)
        request.add_header("Authorization", f"token {found[3]}")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())

    def kernel(self, code: str = PROGRAM) -> int:
        """Start a kernel and run code in it that starts a program. Returns the process id that it prints."""
        kernel = self.ask("api/kernels", b"{}")
        client = BlockingKernelClient(
            connection_file=str(self.cache / "jupyter/runtime" / f"kernel-{kernel['id']}.json")
        )
        client.load_connection_file()
        client.start_channels(hb=False)  # a heart that is silent for a second, as on a busy machine, counts as dead
        client.wait_for_ready(timeout=60)
        said: list[str] = []
        client.execute_interactive(
            code + "; import sys; print('', sys.executable)",
            output_hook=lambda message: said.append(message["content"].get("text", "")),
            timeout=120,
        )
        client.stop_channels()
        number, _, executable = "".join(said).strip().partition(" ")
        assert executable == sys.executable
        return int(number)

    def processes(self) -> list[psutil.Process]:
        """make and everything below it, remembered for the end."""
        top = psutil.Process(self.make.pid)
        self.all = [top, *top.children(recursive=True)]
        return self.all

    def launcher(self) -> int:
        """The process id of the launcher."""
        return next(each.pid for each in self.processes() if "--watch-parent" in each.cmdline())

    def jupyter(self) -> int:
        """The process id of JupyterLab."""
        return next(each.pid for each in self.processes() if "sharedstate_lite.doctor.lab.serve" in each.cmdline())

    def left(self) -> list[psutil.Process]:
        """Which of the remembered processes still run."""
        return [each for each in self.all if kin.runs(each)]

    def wait_gone(self, seconds: float = 45) -> None:
        """Wait until none of the remembered processes runs; fails after the time."""
        limit = time.monotonic() + seconds
        while self.left() and time.monotonic() < limit:
            if self.make.poll() is None and self.make.stdout is not None:
                if select.select([self.make.stdout], [], [], 0.1)[0]:
                    self.said += os.read(self.make.stdout.fileno(), 65536).decode()
            else:
                psutil.wait_procs(self.left(), timeout=0.2)
        assert self.left() == [], self.said

    def close(self) -> None:
        """End what a failed test has left."""
        for each in self.left() or self.all:
            if kin.runs(each):
                each.kill()
        if self.make.poll() is None:
            self.make.kill()
        self.make.wait()
        assert self.make.stdout is not None
        self.make.stdout.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Lab]]:
    """Starts labs that share a caches folder, and ends them after the test."""
    labs: list[Lab] = []

    def begin(command: list[str] = MAKE, **variables: str) -> Lab:
        labs.append(Lab(tmp_path / "cache", command, **variables))
        return labs[-1]

    yield begin
    for lab in labs:
        lab.close()


def interrupt_group(lab: Lab) -> None:
    """Ctrl-C: the terminal sends SIGINT to all of the foreground."""
    os.killpg(lab.make.pid, signal.SIGINT)


def terminate_group(lab: Lab) -> None:
    """What a supervisor sends to all of a service."""
    os.killpg(lab.make.pid, signal.SIGTERM)


def terminate_make(lab: Lab) -> None:
    """SIGTERM to make alone."""
    lab.make.terminate()


def interrupt_make(lab: Lab) -> None:
    """SIGINT to make alone, which make does not pass on."""
    if not sys.platform.startswith("linux"):
        pytest.skip("seen through /proc only")
    lab.make.send_signal(signal.SIGINT)


def hang_up_make(lab: Lab) -> None:
    """SIGHUP to make alone, which make keeps to itself as well."""
    lab.make.send_signal(signal.SIGHUP)


def quit_make(lab: Lab) -> None:
    """SIGQUIT to make alone."""
    lab.make.send_signal(signal.SIGQUIT)


def kill_make(lab: Lab) -> None:
    """make is gone without a word."""
    lab.make.kill()


def kill_launcher(lab: Lab) -> None:
    """The launcher is gone without a word, so JupyterLab must notice by itself."""
    os.kill(lab.launcher(), signal.SIGKILL)


def kill_jupyter(lab: Lab) -> None:
    """JupyterLab is gone without a word, as when memory runs out."""
    os.kill(lab.jupyter(), signal.SIGKILL)


ENDINGS = [
    interrupt_make,
    kill_launcher,
    *(
        pytest.param(way, marks=pytest.mark.slow)
        for way in (interrupt_group, terminate_make, terminate_group, hang_up_make, quit_make, kill_make, kill_jupyter)
    ),
]


@pytest.mark.parametrize("ending", ENDINGS)
def test_leaves_nothing_running(start: Callable[..., Lab], ending: Callable[[Lab], None]) -> None:
    """However the lab ends, make, launcher, JupyterLab, kernel and what the kernel started are all gone."""
    lab = start()
    lab.started()
    program = lab.kernel()
    assert program in [each.pid for each in lab.processes()] and len(lab.all) >= 5
    ending(lab)
    lab.wait_gone()


@pytest.mark.slow
@pytest.mark.parametrize("ending", [interrupt_group, kill_launcher])
def test_leaves_no_spark_running(start: Callable[..., Lab], ending: Callable[[Lab], None]) -> None:
    """A Spark session in a kernel ends with the lab, JVM included."""
    lab = start()
    jvm = lab.kernel(SPARK)
    assert jvm in [each.pid for each in lab.processes()]
    ending(lab)
    lab.wait_gone()


def test_address_is_last_and_opens(start: Callable[..., Lab], tmp_path: Path) -> None:
    """Doctor and example come first, the address last; it opens with its token and not without; the log is a file."""
    lab = start()
    found = lab.started()
    assert lab.said.endswith(found[0])
    assert re.search(r"^doctor: \d+ of \d+ ok", lab.said, re.MULTILINE)
    with urllib.request.urlopen(found[0].strip(), timeout=30) as page:
        assert page.status == 200 and b"jupyter" in page.read().lower()
    bare = urllib.request.Request(f"http://127.0.0.1:{found[1]}/api/contents")
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(bare, timeout=30)
    log = re.search(r"its log is (\S+)", lab.said)
    assert log and Path(log[1]).is_relative_to(tmp_path) and "127.0.0.1" in Path(log[1]).read_text()
    if (ROOT / launch.START_HERE).is_file():
        assert found[2] == f"lab/tree/{launch.START_HERE}"


def test_second_lab_beside_the_first(start: Callable[..., Lab]) -> None:
    """Two labs run side by side on two ports, and ending one leaves the other."""
    first, second = start(), start()
    assert first.started()[1] != second.started()[1]
    second.processes()
    second.make.terminate()
    second.wait_gone()
    assert first.ask("api/status")["kernels"] == 0


def test_ignores_a_persons_own_jupyter(start: Callable[..., Lab], tmp_path: Path) -> None:
    """A broken configuration and a foreign kernel of the person's own change nothing; nobody is asked about news."""
    own = tmp_path / "own"
    (own / "kernels" / "python3").mkdir(parents=True)
    (own / "jupyter_server_config.py").write_text("raise SystemExit('mine')\n")
    (own / "kernels" / "python3" / "kernel.json").write_text(
        '{"argv": ["/none"], "display_name": "x", "language": "x"}'
    )
    variables = ["JUPYTER_CONFIG_DIR", "JUPYTER_CONFIG_PATH", "JUPYTER_PATH", "JUPYTER_DATA_DIR", "IPYTHONDIR"]
    lab = start(**dict.fromkeys(variables, str(own)), http_proxy="http://127.0.0.1:9", HTTP_PROXY="http://127.0.0.1:9")
    lab.started()
    assert lab.kernel() > 0
    assert list(lab.ask("api/kernelspecs")["kernelspecs"]) == ["python3"]
    setting = lab.ask("lab/api/settings/@jupyterlab/apputils-extension:notification")
    assert setting["schema"]["properties"]["fetchNews"]["default"] == "false"
    assert setting["settings"] == {}


def test_closed_standard_input(start: Callable[..., Lab]) -> None:
    """With standard input closed, not merely empty, it starts and ends all the same."""
    lab = start(["sh", "-c", 'exec "$@" <&-', "sh", *MAKE])
    lab.started()
    lab.processes()
    lab.make.terminate()
    lab.wait_gone()


def test_ended_while_it_starts(start: Callable[..., Lab]) -> None:
    """Ctrl-C before the address is there leaves nothing running either."""
    lab = start()
    lab.read(lambda: "doctor:" in lab.said)
    lab.processes()
    interrupt_group(lab)
    lab.wait_gone()
    assert not ADDRESS.search(lab.said) and "Traceback" not in lab.said


def test_example_that_fails_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the example fails, JupyterLab is ended again, one sentence says why, and the status is 1."""
    monkeypatch.setenv("SHAREDSTATE_LITE_CACHE", str(tmp_path))
    monkeypatch.setattr(launch, "run", lambda module, *arguments: 3 if module.endswith("demo") else 0)
    before = set(psutil.Process().children(recursive=True))
    assert launch.main(["--no-browser"]) == 1
    assert "the example ended with status 3" in capsys.readouterr().err
    assert set(psutil.Process().children(recursive=True)) <= before


def test_kit_that_does_not_load_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the doctor finds the kit broken and it does not load, nothing is started, and one sentence says so."""
    monkeypatch.setenv("SHAREDSTATE_LITE_CACHE", str(tmp_path))
    monkeypatch.setattr(launch, "run", lambda module, *arguments: 2)
    monkeypatch.setattr(launch, "Server", None)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "duckdb.py").write_text("raise ImportError('of another machine')\n")
    (tmp_path / "numpy.py").write_text("raise ImportError('of another machine')\n")
    assert launch.main(["--no-browser"]) == 1
    said = capsys.readouterr()
    assert "the kit does not load" in said.err and "Traceback" not in said.err


def test_no_browser_where_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a display, or without a terminal, no browser is sought."""

    def never(*arguments: object) -> None:
        raise AssertionError("a browser was sought")

    monkeypatch.setattr(launch.webbrowser, "get", never)
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    launch.show("http://127.0.0.1/")
    monkeypatch.setenv("DISPLAY", ":0")
    launch.show("http://127.0.0.1/")


def test_watch_raises_once() -> None:
    """The first signal raises Ended, the second only says to hurry, so that ending is never cut short."""
    with Watch(parent=False) as watch:
        with pytest.raises(Ended):
            os.kill(os.getpid(), signal.SIGTERM)
            watch.pause(10)
        os.kill(os.getpid(), signal.SIGTERM)
        watch.pause(0.1)
        assert watch.hurry
