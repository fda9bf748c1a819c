"""A server of an entity program as a process, and requests to it; and one without sockets."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from carriers import cell

from sharedstate_lite.entities import Program
from sharedstate_lite.entities.serve import EntityService

ROOT = Path(__file__).resolve().parents[2]
SHOP = ROOT / "labs" / "checkout" / "entities" / "shop.py"

COUNTERS = """
from __future__ import annotations
from sharedstate_lite.entities import Program, Refused, entity, many, new

@entity
class Counter:
    def __init__(self, name: str, n: int = 0):
        self.name, self.n, self.words = name, n, ("a", 1)
    def __key__(self):
        return self.name
    def add(self, n: int):
        if self.n + n > 100:
            raise Refused("too many")
        self.n += n
        return self.n
    def move(self, other: Counter, n: int):
        self.n -= n
        other.add(n)
        self.n = self.n // (self.n // self.n)
    def find(self):
        return {"n": self.n, "words": self.words}
    def peek(self):
        self.n += 1
        return self.n

counters = Program(Counter, routes={
    "POST /new/{n:int}": new(Counter, "id"),
    "POST /add/{counter}/{n:int}": Counter.add,
    "POST /move/{counter}/{other}/{n:int}": Counter.move,
    "POST /many/{k:int}/{n:int}": many("k", Counter, lambda i, n: (str(i), n)),
    "GET /find/{counter}": Counter.find,
    "GET /peek/{counter}": Counter.peek,
})
"""
"""A program with a method for each way in which a request can end."""


@cache
def counters(source: str = COUNTERS) -> Program:
    """The program of counters."""
    made: Program = cell(source)["counters"]
    return made


class Client:
    """Takes the place of a connection: keeps its answers in the list of all events."""

    def __init__(self, events: list[Any] | None = None) -> None:
        self.events: list[Any] = [] if events is None else events

    def answer(self, raw: bytes) -> None:
        """Called by the service."""
        head, _, body = raw.partition(b"\r\n\r\n")
        self.events.append((int(head.split()[1]), json.loads(body)))


def ask(service: EntityService, *requests: str) -> list[Any]:
    """Send requests in one turn of the loop, ``METHOD path [key]`` each. Return the answers, in their order."""
    client = Client()

    async def run() -> None:
        for request in requests:
            method, path, key = [*request.split(" "), ""][:3]
            service.request(client, method.encode(), path.encode(), key)  # type: ignore[arg-type]
        await asyncio.sleep(0)

    asyncio.run(run())
    return client.events


@contextmanager
def served(folder: Path, data: Path, *words: str, program: str = "shop.py", **environment: str) -> Iterator[str]:
    """Serve an exported program until the block ends, then kill it. Yields its address."""
    command = [sys.executable, "-I", ".", "serve", program, "--port", "0", "--data", str(data), *words]
    env = {**os.environ, **environment}
    with subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def send(address: str, method: str, path: str, key: str = "") -> tuple[int, Any]:
    """One request: its status and its answer."""
    headers = {"Idempotency-Key": key} if key else {}
    request = urllib.request.Request(address + path, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as found:
            return found.status, json.load(found)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)
