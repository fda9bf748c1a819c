"""An HTTP server for an entity program on Spark: a micro-batch is an epoch.

The requests that arrive while a micro-batch runs are sent with the next one. A request is answered when the micro-batch
that ended it has written its output. The next one starts when no more requests arrive. A micro-batch takes hardly
longer with a thousand requests than with one, and clients that were answered together send together.

The number of a request with an `Idempotency-Key` is a hash of the key. `SparkEntities` records a request and its answer
by that number, in the same epoch as its effect, so the key has one effect and one answer, also after ``kill -9``. The
key of a new entity is made of the number, too: a request that is repeated before it has an answer asks the same. A
request without a key has a random negative number, which is not recorded.

If a micro-batch fails for good, the process exits with status 70, and the next start continues.
"""

from __future__ import annotations

import asyncio
import os
import sys
from hashlib import sha256
from pathlib import Path

from ..errors import Error
from ..spark.rounds.message import BinMessage
from .bins import READ, AnswerMessage, AskMessage, outcome
from .errors import Refused
from .http1 import HttpConnection, answer
from .log import ServeError
from .on_spark import SparkEntities, text_of_question
from .plain import Reply
from .routes import EntityRoute, HttpError, Routes
from .serve import accept, body, load, serve, stop

QUIET_SECONDS, MOST_WAITS = 0.01, 10
"""A micro-batch starts when no request has arrived for so long, or after so many waits."""
_FAILED = "the micro-batch failed, so this process exits; the next start continues"


class SparkService:
    """Requests to the entities of ``front``. ``waiting`` counts those without an answer."""

    def __init__(self, front: SparkEntities) -> None:
        self.front, self.routes = front, Routes(front.program)
        self.waiting = 0
        self._clients: dict[int, list[tuple[HttpConnection, EntityRoute]]] = {}
        self._running: asyncio.Task[None] | None = None

    def request(self, connection: HttpConnection, method: bytes, path: bytes, key: str) -> None:
        """Answer a request that has an answer, and send any other one with the next micro-batch."""
        try:
            route, args, key = accept(self.routes, self.waiting, method, path, key)
            number = int.from_bytes(sha256(key.encode()).digest()[:15] if key else os.urandom(15))
            question = route.question(args, f"{number:x}")
            ask = AskMessage(number if key else -1 - number, *question, None, READ if route.method == "GET" else False)
            end = self.front.ask(ask)
        except HttpError as error:
            return connection.answer(answer(error.status, {"error": str(error)}))
        except Error:
            text = f"this Idempotency-Key was used for {text_of_question(self.front.questions[number])}; use a new one"
            return connection.answer(answer(422, {"error": text}))
        if end:
            return connection.answer(self._raw(end, route))
        self.waiting += 1
        self._clients.setdefault(ask.request, []).append((connection, route))
        self.run()

    def run(self) -> None:
        """Run micro-batches until nothing is left to send."""
        if self._running is None and self.front.unfinished:
            self._running = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()

        async def take(sent: list[BinMessage]) -> list[BinMessage]:
            for number, end in self.front.end(sent).items():
                self._ended(number, end)
            await self._quiet()
            return self.front.begin()

        def wait(sent: list[BinMessage]) -> list[BinMessage]:
            return asyncio.run_coroutine_threadsafe(take(sent), loop).result()

        try:
            await self._quiet()
            await asyncio.to_thread(self.front.deliver, self.front.begin(), wait)
        except Exception:
            stop(_FAILED)
        self._running = None
        self.run()  # requests may have come after the last `take`

    async def _quiet(self) -> None:
        """Wait while requests arrive."""
        before = -1
        for _ in range(MOST_WAITS):
            if before == self.waiting:
                break
            before = self.waiting
            await asyncio.sleep(QUIET_SECONDS)

    def _ended(self, number: int, end: AnswerMessage) -> None:
        clients = self._clients.pop(number, [])
        self.waiting -= len(clients)
        if end.error and end.error[0] != Refused.__name__:
            pattern = clients[0][1].pattern if clients else "a request of an earlier process"
            sys.stderr.write(f"{pattern}: {end.error[2]}: {end.error[0]}: {end.error[1]}\n")
        for connection, route in clients:
            connection.answer(self._raw(end, route))

    def _raw(self, end: AnswerMessage, route: EntityRoute) -> bytes:
        value = outcome(self.front.program, end)
        if end.error is None:
            return answer(200, route.result(value))
        status = 400 if isinstance(value, Refused) else 500
        return answer(status, body(Reply(status, None, value)))

    async def serve(self, port: int) -> None:
        """Finish what an earlier process left, and serve; see `serve`."""
        self.run()
        await serve(self.request, port)


def serve_on_spark(source: Path, folder: Path, port: int, bins: int = 1) -> None:
    """Serve the program in a file, on the session of ``ss.spark.session()``. ``folder``: see `SparkEntities`.

    Raises ServeError if the program, the folder or Spark cannot be used.
    """
    program = load(source)
    del sys.modules[f"program_{source.stem}"]  # Spark's workers could not import it, so it is pickled with the program
    try:
        with SparkEntities(program, folder, bins) as front:
            asyncio.run(SparkService(front).serve(port))
    except Error as error:
        raise ServeError(str(error)) from error
