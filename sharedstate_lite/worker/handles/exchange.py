"""An all-gather for tasks of one job: each puts its slice of a round, and all get the whole.

The driver concatenates the slices of a round into an :class:`~.immutable.Immutable`, which every task of a host maps.
So an iterative computation needs one Spark job, not one for each iteration.
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
from .driver import SparkLike, driver
from .handle import SharedHandle, as_table, unpickle
from .immutable import Immutable

ROUND_SECONDS = 120.0
"""How long a round waits for its last slice."""
_ROUND = b"sharedstate_lite.round"


class Exchange(SharedHandle):
    """``parts`` tasks, numbered from 0, that run at once: start them with ``rdd.barrier().mapPartitions(...)``.

    A retried task puts its slices again, so a slice must depend only on what the task has read. A round is deleted when
    the next one is complete. Raises Error if ``parts`` is not a positive integer.
    """

    kind = "Exchange"
    parts: int

    def __init__(self, spark: SparkLike = None, parts: int = 2) -> None:
        if not is_integer(parts) or parts < 1:
            raise Error(f"Exchange: parts={parts!r}. Pass the number of tasks that put slices, 1 or more.")
        found = driver(spark)
        self.parts = int(parts)
        self._server = found
        self._rounds: dict[int, _Round] = {}
        self._closed = False
        super().__init__(found, found.register(self.kind, {}, serve=self._serve))

    def all(self, round: int, part: int, rows: pa.Table | pa.RecordBatch) -> pa.Table:
        """Put slice ``part`` of a round; wait for the others; return the rows of all slices in the order of the parts.

        Raises Error if a slice does not arrive within two minutes or has other columns, and Lost.
        """
        call = f"{self._name}.all"
        table = as_table(call, rows)
        try:
            round, part = operator.index(round), operator.index(part)
        except TypeError:
            raise Error(f"{call}: round {round!r}, part {part!r}. Pass two integers, from 0.") from None
        if round < 0:
            raise Error(f"{call}: round {round}. Rounds are numbered from 0.")
        if not 0 <= part < self.parts:
            raise Error(f"{call}: part {part} of {self.parts}. Parts are numbered from 0.")
        where = json.dumps([round, part]).encode()
        _, answer, _ = self._request({"op": "ask"}, table.replace_schema_metadata({_ROUND: where}), retry=False)
        assert answer is not None
        attributes: dict[str, Any] = answer.to_pylist()[0]
        name = str(attributes.pop("name"))
        complete = unpickle(Immutable, self._application, name, attributes)
        assert isinstance(complete, Immutable)
        return complete.table()

    def close(self) -> None:
        """Close it and its rounds; waiting tasks raise Error. Harmless when repeated."""
        super().close()
        self._closed = True
        taken = [self._rounds.pop(number, None) for number in list(self._rounds)]
        rounds = [one for one in taken if one is not None]
        with contextlib.suppress(RuntimeError):  # the loop ended with the application
            self._server.loop.call_soon_threadsafe(self._abandon, rounds)
        for one in rounds:
            one.close()

    def _abandon(self, rounds: list[_Round]) -> None:
        for one in rounds:
            if not one.assembling:
                one.whole.set_exception(Error(f"{self._name}: closed while slices were missing"))
                one.whole.exception()  # mark as retrieved: there may be no waiter

    def _attributes(self) -> dict[str, Any]:
        return {"parts": self.parts}

    async def _serve(self, head: Head, table: pa.Table | None) -> Reply:
        """Take a slice, and answer when its round is complete."""
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
                why = f"{self._name}: round {number}: the slices have different columns ({error}). Give all the same."
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
                "All tasks must run at once: use rdd.barrier()."
            ) from None
        return {}, pa.table({"name": [found.name], "rows": [found.rows], "nbytes": [found.nbytes]})

    def _delete_before(self, number: int) -> None:
        # A task that puts a slice has read all earlier rounds.
        for earlier in [earlier for earlier in list(self._rounds) if earlier < number]:
            found = self._rounds.pop(earlier, None)
            if found is not None:  # else close() has taken it
                found.close()


class _Round:
    """The slices so far, and the whole once it is assembled."""

    def __init__(self, whole: asyncio.Future[Immutable]) -> None:
        self.slices: dict[int, pa.Table] = {}
        self.whole, self.assembling = whole, False

    def close(self) -> None:
        """Close the whole, if there is one."""
        if self.whole.done() and not self.whole.cancelled() and self.whole.exception() is None:
            self.whole.result().close()
