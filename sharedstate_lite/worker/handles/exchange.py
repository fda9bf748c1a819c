"""An all-gather for the tasks of one job. In each round, every task sends a slice and receives the slices of all tasks.

The driver concatenates the slices of a round into an :class:`~.immutable.Immutable`, which every task maps. An
iterative computation therefore needs only one Spark job, instead of one job per iteration.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import operator
from typing import Any

import pyarrow as pa

from ...errors import Error, is_integer
from ..runtime.resource import Head, Reply
from .batches import as_table, like
from .driver import SparkLike, driver
from .handle import SharedHandle, unpickle
from .immutable import Immutable

ROUND_SECONDS = 120.0
"""How long the tasks of a round wait for the last slice."""
_ROUND = b"sharedstate_lite.round"


class Exchange(SharedHandle):
    """Exchanges rows between ``parts`` tasks, which are numbered from 0.

    All tasks must run at the same time, so start them with ``rdd.barrier().mapPartitions(...)``. A retried task sends
    its slices again, so a slice must depend only on data that the task has read. A round is deleted when the next round
    is complete. Raises Error if ``parts`` is not a positive integer.
    """

    kind = "Exchange"
    parts: int

    def __init__(self, spark: SparkLike = None, parts: int = 2) -> None:
        if not is_integer(parts) or parts < 1:
            raise Error(f"Exchange: parts={parts!r} is not valid. Pass an integer of at least 1.")
        found = driver(spark)
        self.parts = int(parts)
        self._server = found
        self._rounds: dict[int, _Round] = {}
        self._closed = False
        super().__init__(found, found.register(self.kind, {}, serve=self._serve))

    def all(self, round: int, part: int, rows: Any) -> Any:
        """Send this task's slice of a round, wait for the other slices, and return the rows of all slices.

        ``round`` is the number of the round, and ``part`` is the number of this task. The rows are returned in the
        order of the parts. Raises Error if a slice does not arrive within two minutes, or if the slices have different
        columns. Raises Lost if the runtime exits.
        """
        call = f"{self._name}.all"
        table = as_table(call, rows)
        try:
            round, part = operator.index(round), operator.index(part)
        except TypeError:
            raise Error(f"{call}: round={round!r} and part={part!r} must both be integers.") from None
        if round < 0:
            raise Error(f"{call}: round {round} does not exist. Rounds are numbered from 0.")
        if not 0 <= part < self.parts:
            raise Error(f"{call}: part {part} does not exist. The {self.parts} parts are numbered from 0.")
        where = json.dumps([round, part]).encode()
        _, answer, _ = self._request({"op": "ask"}, table.replace_schema_metadata({_ROUND: where}), retry=False)
        assert answer is not None
        attributes: dict[str, Any] = answer.to_pylist()[0]
        name = str(attributes.pop("name"))
        complete = unpickle(Immutable, self._application, name, attributes)
        assert isinstance(complete, Immutable)
        return like(complete.table(), rows)

    def close(self) -> None:
        """Close the exchange and its rounds, so that waiting tasks raise Error.

        A second call does nothing. Raises Error in a task.
        """
        super().close()
        self._closed = True
        taken = [self._rounds.pop(number, None) for number in list(self._rounds)]
        rounds = [one for one in taken if one is not None]
        with contextlib.suppress(RuntimeError):  # the loop has stopped, because the application has ended
            self._server.loop.call_soon_threadsafe(self._abandon, rounds)
        for one in rounds:
            one.close()

    def _abandon(self, rounds: list[_Round]) -> None:
        for one in rounds:
            if not one.assembling:
                one.whole.set_exception(Error(f"{self._name}: it was closed while slices were missing"))
                one.whole.exception()  # marks it as retrieved, because no task may be waiting

    def _attributes(self) -> dict[str, Any]:
        return {"parts": self.parts}

    async def _serve(self, head: Head, table: pa.Table | None) -> Reply:
        """Store a slice, and answer when its round is complete."""
        assert table is not None
        number, part = json.loads((table.schema.metadata or {})[_ROUND])
        one = self._rounds.setdefault(number, _Round(asyncio.get_running_loop().create_future()))
        one.slices[part] = table.replace_schema_metadata(None)
        if len(one.slices) == self.parts and not one.assembling:
            one.assembling = True
            try:
                rows = pa.concat_tables([one.slices[at] for at in range(self.parts)])
                one.whole.set_result(await asyncio.to_thread(Immutable, self._server, rows))
            except pa.ArrowInvalid as error:
                why = (
                    f"{self._name}: round {number}: the slices have different columns ({error}). "
                    "Use the same columns in all slices."
                )
                one.whole.set_exception(Error(why))
            except Exception as error:  # otherwise the waiting tasks would report a missing slice
                why = f"{self._name}: round {number} cannot be assembled: {type(error).__name__}: {error}"
                one.whole.set_exception(Error(why))
            await asyncio.to_thread(self._delete_before, number)
            if self._closed:
                await asyncio.to_thread(one.close)
        try:
            found = await asyncio.wait_for(asyncio.shield(one.whole), ROUND_SECONDS)
        except TimeoutError:
            raise Error(
                f"{self._name}: round {number} has {len(one.slices)} of {self.parts} slices after {ROUND_SECONDS:g} s. "
                "All tasks must run at the same time; start them with rdd.barrier()."
            ) from None
        return {}, pa.table({"name": [found.name], "rows": [found.rows], "nbytes": [found.nbytes]})

    def _delete_before(self, number: int) -> None:
        # A task that sends a slice has read all earlier rounds.
        for earlier in [earlier for earlier in list(self._rounds) if earlier < number]:
            found = self._rounds.pop(earlier, None)
            if found is not None:  # otherwise, close() has removed it
                found.close()


class _Round:
    """The slices of a round that have arrived so far, and a future for the table that is assembled from them."""

    def __init__(self, whole: asyncio.Future[Immutable]) -> None:
        self.slices: dict[int, pa.Table] = {}
        self.whole, self.assembling = whole, False

    def close(self) -> None:
        """Close the assembled table, if there is one."""
        if self.whole.done() and not self.whole.cancelled() and self.whole.exception() is None:
            self.whole.result().close()
