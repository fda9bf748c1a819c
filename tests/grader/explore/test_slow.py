"""`explore --slow`: a person releases each message, and attaches a debugger to a process meanwhile."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from systems import plant

ROOT = Path(__file__).resolve().parents[3]
CASE = "payable, late order->stock POST /subtract, 1st"


class Debugger:
    """A client of debugpy, as an editor is one. Source: the Debug Adapter Protocol."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 60.0)
        self._file = self._socket.makefile("rb")
        self._number = 0
        self._events: list[dict[str, Any]] = []

    def close(self) -> None:
        """Disconnect."""
        self._file.close()
        self._socket.close()

    def send(self, command: str, **arguments: Any) -> int:
        """Send a request, and return its number."""
        self._number += 1
        body = {"seq": self._number, "type": "request", "command": command, "arguments": arguments}
        data = json.dumps(body).encode()
        self._socket.sendall(b"Content-Length: %d\r\n\r\n" % len(data) + data)
        return self._number

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Send a request, and return the body of its answer."""
        number = self.send(command, **arguments)
        while (said := self._receive()).get("request_seq") != number:
            self._events.append(said)
        assert said["success"], said
        return dict(said.get("body") or {})

    def until(self, event: str) -> dict[str, Any]:
        """Return the body of the next event with this name."""
        while not (found := [each for each in self._events if each.get("event") == event]):
            self._events.append(self._receive())
        self._events.remove(found[0])
        return dict(found[0].get("body") or {})

    def _receive(self) -> dict[str, Any]:
        length = 0
        while line := self._file.readline().strip():
            length = int(line.partition(b":")[2])
        return dict(json.loads(self._file.read(length)))


@contextmanager
def slow(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The command, whose messages are released by lines on its standard input."""
    words = [sys.executable, "-m", "grader", "explore", str(folder), "--case", CASE, "--slow"]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def line_of(process: subprocess.Popen[str], beginning: str) -> str:
    """The next line that begins with some words."""
    assert process.stdout is not None
    return next(line for line in process.stdout if line.lstrip().startswith(beginning)).strip()


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("gdb"), reason="debugpy attaches to a process with gdb, which is not installed")
def test_a_debugger_sees_a_local_variable(tmp_path: Path) -> None:
    """It is attached to order before the first message, and stops before stock is asked for the first item."""
    folder = plant("start", tmp_path / "start")
    text = (folder / "order/app.py").read_text()
    line = 1 + text[: text.index('        if not ask("POST", f"{STOCK}/subtract')].count("\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    with slow(folder) as explored:
        assert explored.stdin is not None
        pids = re.findall(r"\d+", line_of(explored, "order: pid").partition(", port")[0])
        copy = line_of(explored, "The copy that runs:").partition(": ")[2]
        assert line_of(explored, "next:") == "next: client->order POST /checkout/O"
        attach = [sys.executable, "-m", "debugpy", "--listen", f"127.0.0.1:{port}", "--pid", pids[-1]]
        subprocess.run(attach, check=True, capture_output=True, timeout=120.0)
        with closing(Debugger(port)) as debugger:
            debugger.ask("initialize", adapterID="test", pathFormat="path")
            debugger.send("attach")
            debugger.until("initialized")
            source = {"path": f"{copy}/order/app.py"}
            (point,) = debugger.ask("setBreakpoints", source=source, breakpoints=[{"line": line}])["breakpoints"]
            assert point["verified"], point
            debugger.ask("configurationDone")
            print(file=explored.stdin, flush=True)
            thread = debugger.until("stopped")["threadId"]
            frame = debugger.ask("stackTrace", threadId=thread, levels=1)["stackFrames"][0]
            assert (frame["name"], frame["line"]) == ("checkout", line)
            seen = debugger.ask("evaluate", expression="quantity, taken", frameId=frame["id"], context="watch")
            assert seen["result"] == "(2, [])"
            debugger.send("disconnect", terminateDebuggee=False)
        assert line_of(explored, "next:") == "next: order->stock POST /subtract/X/2"
