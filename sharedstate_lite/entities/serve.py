"""An HTTP server for an entity program: one process, one log, one sync per epoch.

An epoch consists of the requests that arrive in the same turn of the event loop. The server does three steps per epoch:

1. It runs the requests one after the other, in memory.
2. It appends them to the log as one line, and syncs the file once.
3. It answers them.

A read waits for the sync of the epoch whose changes it saw. If the process dies before the sync, no request of the
epoch has an effect, and no client has an answer to one.

If the server cannot write the log, memory contains changes that the log does not. Then the process exits with status 70
before it answers. The next start replays the log.

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
import os
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from .declare import Reference
from .http1 import HttpConnection, answer
from .log import RequestLog, ServeError, from_json, lock, to_json
from .plain import PlainStore, Reply
from .program import Program
from .routes import MOST_KEY, EntityRoute, HttpError, Routes

MOST_WAITING = 10_000
"""The maximum number of requests that wait for a sync. The next one gets 429 and has no effect."""
MOST_KEYS = 100_000
"""The server stores its answers to the last 100,000 requests with an Idempotency-Key."""
LOG_SIZE = 16 << 20
"""A child process writes a snapshot when the log is larger than this, in bytes, and than the last snapshot. A log of
this size has about 350,000 checkouts, which take 10 to 15 s to replay."""
DISK = 70
"""The exit status if the log cannot be written (EX_SOFTWARE in sysexits.h)."""
_RUNTIME = "declare errors kinds split rules machine liveness write program plain routes".split()
"""The modules that determine the results of a request."""


def load(path: Path) -> Program:
    """Run a Python file, and return its `Program`. Raises OSError, or ServeError unless it defines exactly one."""
    module = types.ModuleType(f"program_{path.stem}")
    sys.modules[module.__name__] = module
    exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), vars(module))
    found = [value for value in vars(module).values() if isinstance(value, Program)]
    if len(found) != 1:
        raise ServeError(f"{path} defines {len(found)} programs; define exactly one Program(..., routes=...)")
    return found[0]


def head(program: Program) -> dict[str, Any]:
    """Return the head of a log: the values that must be the same when the log is replayed."""
    files = [Path(__file__).with_name(f"{name}.py").read_bytes() for name in _RUNTIME]
    runtime = hashlib.sha256(b"".join(files)).hexdigest()
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return {"python": python, "runtime": runtime[:16], "program": program.digest[:16], "bins": 1}


def accept(routes: Routes, waiting: int, method: bytes, path: bytes, key: str) -> tuple[EntityRoute, list[Any], str]:
    """Return the route of a request, its arguments, and its Idempotency-Key, which is "" for a read.

    Raises HttpError if the request cannot be run, or if too many are ``waiting``.
    """
    if waiting >= MOST_WAITING:
        raise HttpError(429, f"{MOST_WAITING} requests are waiting; retry later")
    if len(key) > MOST_KEY:
        raise HttpError(400, f"the Idempotency-Key is longer than {MOST_KEY} bytes")
    route, args = routes.find(method, path)
    return route, args, "" if route.method == "GET" else key


def body(reply: Reply) -> Any:
    """Return the value that a reply is answered with."""
    if reply.error is None:
        return reply.value
    kind = "" if reply.status == 400 else f"{type(reply.error).__name__}: "
    return {"error": f"{kind}{reply.error}"}


class EntityService:
    """A program with its state and its log. The constructor replays the log in ``folder``.

    ``source``: the file of the program. A child process needs it to write snapshots; without it, there are none.
    ``until`` and ``migrate``: as in `RequestLog`. Raises ServeError if the log cannot be replayed.
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
        """For each Idempotency-Key, the request (route and arguments) and the answer (status and value)."""
        self.epoch: list[list[Any]] = []
        """The requests of the current epoch that must be logged: route, arguments, new key or "", Idempotency-Key."""
        self.waiting: list[tuple[HttpConnection, bytes]] = []
        self.log_size = LOG_SIZE
        self._child: asyncio.Task[None] | None = None
        self._lock = lock(folder) if until is None else -1
        self.log = RequestLog(folder, head(program), until, migrate)
        try:
            self._replay()
            if until is None:
                self.log.open()
            if migrate:
                self.log.save(self.log.number, list(self.rows()))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the log and release the folder."""
        self.log.close()
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1

    def rows(self) -> Iterator[list[Any]]:
        """Yield the rows of a snapshot."""
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
                    raise ServeError(f"{self.folder}: the log uses the route {record[0]}; add it to the program")
                self.run(*record)

    def _restore(self, cls: str, key: str, value: Any) -> None:
        if cls == "":
            self.keys[key] = from_json(value)
        elif cls not in self.store.tables:
            raise ServeError(f"{self.folder}: the snapshot contains a {cls}; add this class to the program")
        else:
            self.store.put(Reference(cls, key), {name: from_json(part) for name, part in value.items()})

    def run(self, pattern: str, args: list[Any], drawn: str = "", key: str = "") -> tuple[int, Any]:
        """Run or replay a request. Returns the status and the value. Raises MemoryError."""
        reply = self.routes.all[pattern].run(self.store, args, drawn)
        value = body(reply)
        if reply.error and reply.status == 500:
            where = traceback.extract_tb(reply.error.__traceback__)[-1:]
            line = "".join(f"{frame.name}, {frame.filename}:{frame.lineno}: " for frame in where)
            sys.stderr.write(f"{pattern} {args}: {line}{value['error']}\n")
        if key:
            self.keys[key] = pattern, args, reply.status, value
            if len(self.keys) > MOST_KEYS:
                del self.keys[next(iter(self.keys))]
        return reply.status, value

    def request(self, connection: HttpConnection, method: bytes, path: bytes, key: str) -> None:
        """Run a request. Answer it after the sync of the current epoch, or immediately if the epoch is empty."""
        try:
            route, args, key = accept(self.routes, len(self.waiting), method, path, key)
            if known := self.keys.get(key):
                if (known[0], known[1]) != (route.pattern, args):
                    raise HttpError(422, f"this Idempotency-Key was used for {known[0]} {known[1]}; use a new one")
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
        """Log the requests of the epoch, then answer all requests that wait for it."""
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
        """Start a child process that replays everything before a log and writes the snapshot with its number."""
        words = ["snapshot", str(source), "--data", str(self.folder), "--until", str(number)]
        code = f"import sys; sys.path[:] = {sys.path}; from {__package__}.__main__ import main; main({words})"
        try:
            child = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
            if await child.wait() == 0:
                self.log.saved(number)
            else:
                sys.stderr.write(f"{self.folder}: writing snapshot.{number} failed; the older logs are kept\n")
        finally:
            self._child = None


def stop(
    why: str = "memory has changes that the log may lack, so this process exits; the next start replays the log",
) -> NoReturn:
    """Exit immediately, without an answer to any request, because memory and log may differ."""
    traceback.print_exc()
    sys.stderr.write(f"{why}\n")
    sys.stderr.flush()
    os._exit(DISK)


async def serve(handle: Callable[[HttpConnection, bytes, bytes, str], None], port: int) -> None:
    """Serve on 127.0.0.1 until the process ends, and print the address. Port 0 selects a free port.

    ``handle``: the method ``request`` of a service.
    """
    import resource  # POSIX only

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(ValueError):  # macOS does not allow "unlimited"
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 1_000_000)  # state has no cycles; a full collection would delay an epoch
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: HttpConnection(handle), "127.0.0.1", port, backlog=1024)
    sys.stdout.write(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()
