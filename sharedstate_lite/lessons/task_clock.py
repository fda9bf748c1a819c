"""Times functions of ``mapInPandas`` inside the tasks of a Spark job, so that the start of the job does not count.

    clock = TaskClock(events, warm=1)
    clock.run({"one by one": one_by_one, "8 threads": threads})
    clock.ms("one by one")     the median of the rounds
    clock.table()              with the fastest and the slowest round

A task calls the functions in turn on its own rows, several rounds long, each round beginning with another one, so that
other load on the machine affects all of them equally. Input and output of the task are not timed. The clock starts when
a function takes its first batch, so the connections that it opens before that are not timed, unless ``whole``.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import perf_counter
from typing import Any

import pandas as pd

Work = Callable[[Iterator[pd.DataFrame]], Iterable[pd.DataFrame]]
TOLD = "name STRING, turn INT, seconds DOUBLE, rows BIGINT, answer BINARY"


class TaskClock:
    """The times of functions over the Spark DataFrame ``events``: the ms that a task spends for each of its events.

    Before ``rounds`` that count, ``warm`` rounds do not. If ``whole``, the clock starts when a function is called.
    """

    def __init__(self, events: Any, rounds: int = 3, warm: int = 0, whole: bool = False) -> None:
        self._events, self._rounds, self._warm, self._whole = events, rounds, warm, whole
        self._ms: dict[str, list[float]] = {}
        self.answers: dict[str, pd.DataFrame] = {}
        """By function: the rows that it returned in the last round, in the order of their columns."""

    def run(self, works: Mapping[Any, Work]) -> None:
        """Run one job that times all functions, given by name. A name that was timed before is replaced."""
        warm, first = self._warm, 0 if self._whole else -1
        turns, functions = warm + self._rounds, {str(name): work for name, work in works.items()}

        def started(batches: list[pd.DataFrame], began: list[float]) -> Iterator[pd.DataFrame]:
            began.append(perf_counter())
            yield from batches

        def timed(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
            given = list(batches)
            order = list(functions.items())
            for turn in range(turns if given else 0):
                order = [*order[1:], order[0]]
                for name, work in order:
                    began = [perf_counter()]
                    out = pd.concat(list(work(started(given, began))))
                    seconds = perf_counter() - began[first]
                    told = [name, turn, seconds, len(out), pickle.dumps(out)]
                    yield pd.DataFrame([told], columns=["name", "turn", "seconds", "rows", "answer"])

        told = self._events.mapInPandas(timed, TOLD).toPandas()
        for name in functions:
            mine = told[(told["name"] == name) & (told["turn"] >= warm)]
            sums = mine.groupby("turn")[["seconds", "rows"]].sum()
            self._ms[name] = (1000 * sums["seconds"] / sums["rows"]).tolist()
            last = mine[mine["turn"] == turns - 1]["answer"]
            answer = pd.concat([pickle.loads(bytes(one)) for one in last])
            self.answers[name] = answer.sort_values(list(answer.columns), ignore_index=True)

    def ms(self, name: Any) -> float:
        """Return the median of the rounds, in ms per event."""
        return float(pd.Series(self._ms[str(name)]).median())

    def table(self) -> pd.DataFrame:
        """Return the median, the fastest and the slowest round of each function, in ms per event."""
        rows = {name: [self.ms(name), min(ms), max(ms)] for name, ms in self._ms.items()}
        return pd.DataFrame(rows, index=["ms per event", "fastest", "slowest"]).T


__all__ = ["TaskClock"]
