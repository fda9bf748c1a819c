"""A program behind HTTP: requests are run one after the other, logged an epoch at a time, and answered.

An epoch is what arrives in one turn of the event loop. Its requests run at once, in memory; then they are one line of
the log and one sync; then they are answered. A read is answered after the epoch that it saw. If the process dies
before the sync, none of the epoch has happened, and nobody has an answer that says otherwise.

What memory has done and the log has not cannot be undone, so any error between the two ends the process (exit 70).

>>> import tempfile
>>> from sharedstate_lite.entities import Program, entity, new
>>> @entity
... class Item:
...     def __init__(self, item_id: str, stock: int):
...         self.item_id, self.stock = item_id, stock
...     def __key__(self):
...         return self.item_id
...     def put(self, n: int):
...         self.stock += n
...     def find(self):
...         return {"stock": self.stock}
>>> routes = {"POST /item/{stock:int}": new(Item, "item_id"), "POST /add/{item}/{n:int}": Item.put}
>>> program = Program(Item, routes=routes | {"GET /find/{item}": Item.find})
>>> with tempfile.TemporaryDirectory() as folder:
...     service = EntityService(program, Path(folder))
...     status, body = service.run("POST /item/{stock:int}", [3], "a1")
...     print(body, service.run("POST /add/{item}/{n:int}", ["a1", 4]), service.run("GET /find/{item}", ["a1"]))
{'item_id': 'a1'} (200, {}) (200, {'stock': 7})
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import importlib.util
import os
import resource
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from .declare import Reference
from .http1 import HttpConnection, answer
from .log import LogError, RequestLog, from_json, lock, to_json
from .plain import PlainStore
from .program import Program
from .routes import MOST_KEY, HttpError, Routes

MOST_WAITING = 10_000
"""Requests that wait for their epoch's sync; more are answered 429, without effect."""
MOST_KEYS = 100_000
"""How many answers are kept for requests that are sent again with their Idempotency-Key."""
LOG_SIZE = 64 << 20
"""Bytes of log, and at least as many as the last snapshot has, after which a child process makes the next one."""
DISK = 70
"""Exit status if the log cannot be written (EX_SOFTWARE)."""
_RUNTIME = ("declare", "errors", "kinds", "split", "rules", "blocks", "program", "plain", "routes")
"""The modules that decide what a request does."""


def load(path: Path) -> Program:
    """Run a file, and return its program. Raises LogError unless it has exactly one."""
    name = f"program_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise LogError(f"{path} is no Python file; name the file with the classes and the Program")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    found = [value for value in vars(module).values() if isinstance(value, Program)]
    if len(found) != 1:
        raise LogError(f"{path} has {len(found)} programs; assign one Program(..., routes=...) to a name")
    return found[0]


def head(program: Program) -> dict[str, Any]:
    """What must be equal for a replay to be equal: the head of a log."""
    files = [Path(__file__).with_name(f"{name}.py").read_bytes() for name in _RUNTIME]
    runtime = hashlib.sha256(b"".join(files)).hexdigest()
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return {"python": python, "runtime": runtime[:16], "program": program.digest[:16], "bins": 1}


class EntityService:
    """A program, its state and its log. Raises LogError if the folder does not fit.

    ``source`` is the program's file, for snapshots: without it there are none. ``until`` and ``migrate`` as in
    `RequestLog`.
    """

    def __init__(
        self,
        program: Program,
        folder: Path,
        source: Path | None = None,
        until: int | None = None,
        migrate: bool = False,
    ) -> None:
        self.source, self.folder = source, folder
        self.routes, self.store = Routes(program), PlainStore(program)
        self.keys: dict[str, tuple[str, list[Any], int, Any]] = {}
        """For each Idempotency-Key its request (route and arguments) and its answer (status and value)."""
        self.epoch: list[list[Any]] = []
        """The requests to log: route, arguments, the drawn key or "", and the Idempotency-Key if there is one."""
        self.waiting: list[tuple[HttpConnection, bytes]] = []
        self.log_size = LOG_SIZE
        self.snapshots = 0
        """How many snapshots were made since the start."""
        self._child: asyncio.Task[None] | None = None
        self._lock = lock(folder) if until is None else -1
        self.log = RequestLog(folder, head(program), until, migrate)
        try:
            self._replay()
            if until is None:
                self.log.open()
            if self.log.foreign:
                self.log.save(self.log.number, list(self.rows()))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the log, and leave the folder to others."""
        self.log.close()
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1

    def rows(self) -> Iterator[list[Any]]:
        """The state, as a snapshot has it."""
        for cls, table in self.store.tables.items():
            for key, me in table.items():
                yield [cls, key, {name: to_json(value) for name, value in me.__dict__.items()}]
        for key, kept in self.keys.items():
            yield ["", key, to_json(kept)]

    def _replay(self) -> None:
        for kind, value in self.log.read():
            if kind == "state":
                self._restore(*value)
                continue
            for record in value:
                if record[0] not in self.routes.all:
                    raise LogError(f"{self.folder}: the log has {record[0]}, which is no route of this program; add it")
                self.run(*record)

    def _restore(self, cls: str, key: str, value: Any) -> None:
        if cls == "":
            self.keys[key] = from_json(value)
        elif cls not in self.store.tables:
            raise LogError(f"{self.folder}: the snapshot has a {cls}, which is no class of this program; add it")
        else:
            self.store.put(Reference(cls, key), {name: from_json(part) for name, part in value.items()})

    def run(self, pattern: str, args: list[Any], drawn: str = "", key: str = "") -> tuple[int, Any]:
        """Run a request, the first time or at a replay: status and value. MemoryError is raised."""
        reply = self.routes.all[pattern].run(self.store, args, drawn)
        error, value = reply.error, reply.value
        if error is not None:
            value = {"error": str(error) if reply.status == 400 else f"{type(error).__name__}: {error}"}
            if reply.status == 500:
                where = traceback.extract_tb(error.__traceback__)[-1:]
                line = "".join(f"{frame.name}, {frame.filename}:{frame.lineno}: " for frame in where)
                sys.stderr.write(f"{pattern} {args}: {line}{value['error']}\n")
        if key:
            self.keys[key] = pattern, args, reply.status, value
            if len(self.keys) > MOST_KEYS:
                del self.keys[next(iter(self.keys))]
        return reply.status, value

    def request(self, connection: HttpConnection, method: bytes, path: bytes, key: str) -> None:
        """Handle a request: run it, and answer it once what it has seen is in the log."""
        try:
            if len(self.waiting) >= MOST_WAITING:
                raise HttpError(429, f"{MOST_WAITING} requests wait; send it again later")
            if len(key) > MOST_KEY:
                raise HttpError(400, f"the Idempotency-Key is longer than {MOST_KEY} bytes")
            route, args = self.routes.find(method, path)
            if route.method == "GET":
                key = ""
            if known := self.keys.get(key):
                if (known[0], known[1]) != (route.pattern, args):
                    raise HttpError(422, f"this Idempotency-Key was sent with {known[0]} {known[1]}; draw a new one")
                status, value = known[2:]
            else:
                drawn = os.urandom(8).hex() if route.draws else ""
                status, value = self.run(route.pattern, args, drawn, key)
                if key or status == 200 and route.method != "GET":
                    if not self.epoch:
                        asyncio.get_running_loop().call_soon(self.flush)
                    self.epoch.append([route.pattern, args, drawn, key] if key else [route.pattern, args, drawn])
            raw = answer(status, value)
        except HttpError as error:
            return connection.answer(answer(error.status, {"error": str(error)}))
        except BaseException:
            stop()
        if self.epoch:
            self.waiting.append((connection, raw))
        else:
            connection.answer(raw)

    def flush(self) -> None:
        """End the epoch: log its requests, then answer them and the reads that saw them."""
        try:
            self.log.append(self.epoch)
            waiting, self.epoch, self.waiting = self.waiting, [], []
            if self.source and self._child is None and self.log.size > max(self.log_size, self.log.snapshot_size):
                number = self.log.rotate()
                self._child = asyncio.get_running_loop().create_task(self._snapshot(self.source, number))
        except BaseException:
            stop()
        for connection, raw in waiting:
            connection.answer(raw)

    async def _snapshot(self, source: Path, number: int) -> None:
        """Let a child process read what is before a log, and write it as a snapshot."""
        words = ["snapshot", str(source), "--data", str(self.folder), "--until", str(number)]
        code = f"import sys; sys.path[:] = {sys.path}; from {__package__}.__main__ import main; main({words})"
        try:
            child = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
            if await child.wait() == 0:
                self.log.saved(number)
                self.snapshots += 1
            else:
                sys.stderr.write(f"{self.folder}: no snapshot before log.{number}; the logs before it are kept\n")
        finally:
            self._child = None


def stop() -> NoReturn:
    """End the process at once: memory and log may differ. Nobody is answered."""
    traceback.print_exc()
    sys.stderr.write("the log may lack what memory has; this process ends, and a start replays the log\n")
    sys.stderr.flush()
    os._exit(DISK)


async def serve(service: EntityService, port: int) -> None:
    """Serve on a port of 127.0.0.1 until the process ends; port 0 is a free one. Prints the address."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(ValueError):  # no limit at all is more than macOS allows
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 1_000_000)  # the state holds no cycles, and a full collection takes longer than an epoch
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: HttpConnection(service.request), "127.0.0.1", port, backlog=1024)
    sys.stdout.write(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()
