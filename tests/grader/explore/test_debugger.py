"""With --slow, a debugger sees the variables of a service that has got a message, while the other messages wait."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from systems import plant

from grader.wire.network import free_ports

ROOT = Path(__file__).resolve().parents[3]
COST = 2 * 5 + 3 * 7
"""What the order costs: 2 of X at 5, and 3 of Y at 7."""


class Editor:
    """Speaks the Debug Adapter Protocol, as an editor does."""

    def __init__(self, port: int) -> None:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            self.file = connection.makefile("rwb")
        self.numbers = itertools.count(1)

    def send(self, command: str, **arguments: object) -> int:
        """Send a request, and return its number."""
        number = next(self.numbers)
        data = json.dumps({"seq": number, "type": "request", "command": command, "arguments": arguments}).encode()
        self.file.write(b"Content-Length: %d\r\n\r\n%b" % (len(data), data))
        self.file.flush()
        return number

    def receive(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first message that is wanted; others are dropped."""
        while True:
            size = 0
            while line := self.file.readline().strip():
                if line.lower().startswith(b"content-length:"):
                    size = int(line.split()[1])
            assert size, "the debugger has closed the connection"
            message: dict[str, Any] = json.loads(self.file.read(size))
            if wanted(message):
                return message

    def event(self, name: str) -> Any:
        """The body of an event."""
        return self.receive(lambda message: message.get("event") == name).get("body")

    def ask(self, command: str, **arguments: object) -> Any:
        """The body of an answer."""
        number = self.send(command, **arguments)
        answer = self.receive(lambda message: message.get("request_seq") == number)
        assert answer["success"], answer
        return answer.get("body")


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("debugpy"), reason="debugpy is missing; it comes with JupyterLab")
def test_a_debugger_sees_a_local_variable_of_a_service_that_has_got_a_message(tmp_path: Path) -> None:
    """As docs/assignment.md says: it stops at its breakpoint() once an editor is attached, and goes on until then."""
    (port,), order = free_ports(1), plant("three", tmp_path / "three") / "order.py"
    text, line = order.read_text(), "    items, money = wants(user, lines)\n"
    assert line in text
    stops = text.replace(line, f"{line}    breakpoint()\n")
    order.write_text(f"import debugpy\ndebugpy.listen({port})\n{stops}")
    words = [sys.executable, "-m", "grader", "explore", str(order.parent), "--slow", "--case", "L1"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with subprocess.Popen(
        words, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as explorer:
        assert explorer.stdin is not None and explorer.stdout is not None
        for said in explorer.stdout:
            if said == "next: client->order POST /checkout/O\n":
                break
        editor = Editor(port)
        editor.ask("initialize", adapterID="test", pathFormat="path")
        editor.send("attach", justMyCode=False)
        editor.event("initialized")
        editor.ask("configurationDone")
        explorer.stdin.write("\n")
        explorer.stdin.flush()
        thread = editor.event("stopped")["threadId"]
        frame = editor.ask("stackTrace", threadId=thread)["stackFrames"][0]
        scope = editor.ask("scopes", frameId=frame["id"])["scopes"][0]
        found = editor.ask("variables", variablesReference=scope["variablesReference"])["variables"]
        values = {each["name"]: each["value"] for each in found}
        assert frame["name"] == "finish"
        assert values["money"].endswith(f":{COST}'"), values
        editor.ask("continue", threadId=thread)
        assert explorer.stdout.readline() == "next: order->stock POST /take/O.1/X:2,Y:3\n"
        editor.ask("disconnect", terminateDebuggee=False)
        editor.file.close()
        out, _ = explorer.communicate("\n" * 100)
    assert "nothing is wrong in this run" in out and explorer.returncode == 0
