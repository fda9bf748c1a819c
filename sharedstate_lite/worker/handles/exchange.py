"""Slices that tasks put together: each gives its own, all get the whole, round after round within one job.

A round's whole is an :class:`~.immutable.Immutable`: written once where the slices meet, in the
driver, and mapped read-only by every task of a host. It is owned until all slices are there, and
cannot be changed from then on. So an iterative computation needs one Spark job, and not one an iteration.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import operator
from typing import Any

import pyarrow as pa

from ...errors import Error, is_integer
from ..runtime.channel import Reply
from ..runtime.protocol import Head
from .driver import SparkLike, driver
from .handle import SharedHandle, _unpickle
from .immutable import Immutable

PATIENCE = 120.0
"""Seconds that a round waits for its last slice."""
_ROUND = b"sharedstate_lite.round"


class Exchange(SharedHandle):
    """``parts`` tasks, numbered from 0, that run at once: ``rdd.barrier().mapPartitions(...)`` makes sure of it.

    What a task puts must follow from what it has read, since another attempt of it puts the
    slice again. A round is forgotten when the one after it is whole. Raises Error for a
    number of parts that cannot be.
    """

    kind = "Exchange"
    parts: int

    def __init__(self, spark: SparkLike = None, parts: int = 2) -> None:
        if not is_integer(parts) or parts < 1:
            raise Error(f"Exchange: parts={parts!r}: it is the number of tasks that put slices, from 1")
        found = driver(spark)
        self.parts = int(parts)
        self._found = found
        self._rounds: dict[int, _Round] = {}
        self._over = False
        super().__init__(found, found.add(self.kind, {}, serve=self._serve))

    def all(self, round: int, part: int, rows: pa.Table | pa.RecordBatch) -> pa.Table:
        """Put slice ``part`` of a round, and get the rows of all its slices in the order of their parts.

        Waits for the others. Raises Error where one does not come, or has other columns, and Lost.
        """
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        if not isinstance(table, pa.Table):
            kind = type(rows).__qualname__
            raise Error(f"{self._name}.all: a {kind} is no Arrow table; pa.table({{...}}) makes one")
        try:
            round, part = operator.index(round), operator.index(part)
        except TypeError:
            raise Error(f"{self._name}.all: round {round!r}, part {part!r}: both are whole numbers from 0") from None
        if round < 0:
            raise Error(f"{self._name}.all: round {round}: rounds are numbered from 0")
        if not 0 <= part < self.parts:
            raise Error(f"{self._name}.all: part {part} of {self.parts}: parts are numbered from 0")
        said = json.dumps([round, part]).encode()
        _, answer, _ = self._ask({"op": "ask"}, table.replace_schema_metadata({_ROUND: said}), retry=False)
        assert answer is not None
        told: dict[str, Any] = answer.to_pylist()[0]
        name = str(told.pop("name"))
        whole = _unpickle(Immutable, self._application, name, told)
        assert isinstance(whole, Immutable)
        return whole.table()

    def close(self) -> None:
        """End it, and the rounds that are left; whoever waits gets an error. Harmless when repeated."""
        super().close()
        self._over = True
        taken = [self._rounds.pop(number, None) for number in list(self._rounds)]
        rounds = [one for one in taken if one is not None]
        with contextlib.suppress(RuntimeError):  # the loop has ended with the application, and with all who waited
            self._found.loop.call_soon_threadsafe(self._give_up, rounds)
        for one in rounds:
            one.end()

    def _give_up(self, rounds: list[_Round]) -> None:
        for one in rounds:
            if not one.closing:
                one.whole.set_exception(Error(f"{self._name}: it was closed while slices were missing"))
                one.whole.exception()  # looked at: it may be that nobody waits

    def _pickled_attributes(self) -> dict[str, Any]:
        return {"parts": self.parts}

    async def _serve(self, head: Head, table: pa.Table | None) -> Reply:
        """A slice has come: its task is answered once the round is whole."""
        assert table is not None
        number, part = json.loads((table.schema.metadata or {})[_ROUND])
        one = self._rounds.setdefault(number, _Round(asyncio.get_running_loop().create_future()))
        one.slices[part] = table.replace_schema_metadata(None)
        if len(one.slices) == self.parts and not one.closing:
            one.closing = True
            try:
                whole = pa.concat_tables([one.slices[at] for at in range(self.parts)])
                one.whole.set_result(await asyncio.to_thread(Immutable, self._found, whole))
            except pa.ArrowInvalid as error:
                why = f"{self._name}: round {number}: the slices have different columns ({error}); give all the same"
                one.whole.set_exception(Error(why))
            except Exception as error:  # of whatever kind: else all who wait would be told that a slice is missing
                why = f"{self._name}: round {number} cannot be put together: {type(error).__name__}: {error}"
                one.whole.set_exception(Error(why))
            await asyncio.to_thread(self._forget, number)
            if self._over:
                await asyncio.to_thread(one.end)
        try:
            found = await asyncio.wait_for(asyncio.shield(one.whole), PATIENCE)
        except TimeoutError:
            raise Error(
                f"{self._name}: round {number} has {len(one.slices)} of {self.parts} slices after {PATIENCE:g} s; all "
                "tasks must run at once, as rdd.barrier() has them do"
            ) from None
        return {}, pa.table({"name": [found.name], "rows": [found.rows], "nbytes": [found.nbytes]})

    def _forget(self, before: int) -> None:
        """Whoever has put into a round has read those before it."""
        for number in [number for number in list(self._rounds) if number < before]:
            found = self._rounds.pop(number, None)
            if found is not None:  # else close() has it
                found.end()


class _Round:
    """The slices that are there, and the whole as soon as it is."""

    def __init__(self, whole: asyncio.Future[Immutable]) -> None:
        self.slices: dict[int, pa.Table] = {}
        self.whole, self.closing = whole, False

    def end(self) -> None:
        """Let go of the whole."""
        if self.whole.done() and not self.whole.cancelled() and self.whole.exception() is None:
            self.whole.result().close()
