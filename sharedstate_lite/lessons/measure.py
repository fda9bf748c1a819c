"""Measure engines from outside: seconds, rows, bytes, hits.

    scale         one of two sizes, by the environment variable SCALE
    slices        tables cut into epochs; tables: epochs added up to tables
    play          epochs through an engine; play_all: through several engines in turn
    reads         point reads: seconds, and whether the key was there
    keys          all keys of a view; zipf: keys drawn by Zipf's law
    hit_rates     a partial engine under several budgets
    recovery      restoring a checkpoint against replaying all epochs
    side_by_side  one view under all three strategies
    timed         a call and its seconds

Rows, bytes and hits are the same on every run; seconds depend on the machine. ``bench/`` has measurements with
warm-up, repetition and separate processes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
import pandas as pd

import sharedstate_lite as ss

from ..changelog.changes import Changes
from ..engine.engine import Engine
from ..errors import Error
from ..plan.view import View

T = TypeVar("T")
Inputs = Mapping[str, Any]
SCALES = ("small", "full")
ROUNDS = 3
"""Repetitions of each way of recovery; the median is reported."""


def scale(small: T, full: T) -> T:
    """``small``, or ``full`` if the environment variable SCALE is ``full``. Raises Error for another value."""
    said = os.environ.get("SCALE", "") or SCALES[0]
    if said not in SCALES:
        raise Error(f"SCALE={said}. Set it to {' or '.join(SCALES)} before you start the notebook.")
    return small if said == SCALES[0] else full


def timed(do: Callable[[], T], rounds: int = 1, undo: Callable[[], Any] | None = None) -> tuple[T, float]:
    """The result of a call and its seconds: the median of ``rounds`` calls, with ``undo()`` between them."""
    seconds = []
    for number in range(max(1, rounds)):
        if number and undo is not None:
            undo()
        began = perf_counter()
        done = do()
        seconds.append(perf_counter() - began)
    return done, float(np.median(seconds))


def slices(tables: Mapping[str, pd.DataFrame], epochs: int) -> list[Inputs]:
    """Tables cut into ``epochs`` pieces of equal size: the n-th input has the n-th piece of each table.

    Rows keep their order, so a retraction follows its row. Raises Error if ``epochs`` is below 1.
    """
    if epochs < 1:
        raise Error(f"epochs={epochs}. Pass 1 or more.")
    out: list[Inputs] = []
    for n in range(epochs):
        piece = {r: t.iloc[len(t) * n // epochs : len(t) * (n + 1) // epochs] for r, t in tables.items()}
        out.append({r: t if "diff" in t else t.assign(diff=1) for r, t in piece.items()})
    return out


def tables(epochs: Iterable[Any]) -> dict[str, pd.DataFrame]:
    """Epochs of frames or Arrow tables added up: the rows of each relation with their total diff."""
    parts: dict[str, list[pd.DataFrame]] = {}
    for each in epochs:
        for relation, table in (each[1] if isinstance(each, tuple) else each).items():
            parts.setdefault(relation, []).append(table if isinstance(table, pd.DataFrame) else table.to_pandas())
    out = {}
    for relation, found in parts.items():
        every = pd.concat(found, ignore_index=True)
        columns = [c for c in every.columns if c != "diff"]
        total = every.groupby(columns, dropna=False, sort=False, as_index=False)["diff"].sum()
        out[relation] = total[total["diff"] != 0].reset_index(drop=True)
    return out


def play(engine: Engine, epochs: Iterable[Inputs | tuple[int, Inputs]]) -> pd.DataFrame:
    """Step through epochs, given as mappings or as pairs from ``data.generate``; one row for each.

    Columns: epoch, changes (input rows), emitted (output rows of all views), seconds (of ``step``), rows and bytes
    (stored after it, without base tables).
    """
    return play_all({"": engine}, epochs)[""]


def play_all(engines: Mapping[str, Engine], epochs: Iterable[Inputs | tuple[int, Inputs]]) -> dict[str, pd.DataFrame]:
    """The same epochs through several engines, with a table for each as :func:`play` returns it.

    Each epoch goes through all engines in turn, starting with another one each time, so that other load on the machine
    affects all of them alike.
    """
    names = list(engines)
    lines: dict[str, list[list[Any]]] = {name: [] for name in names}
    for number, each in enumerate(epochs):
        inputs = each[1] if isinstance(each, tuple) else each
        came, turn = sum(map(_size, inputs.values())), number % len(names)
        for name in [*names[turn:], *names[:turn]]:
            out, seconds = timed(lambda e=engines[name], i=inputs: e.step(i))  # type: ignore[misc]
            state = engines[name].state()
            own = state[~state["base"]]
            went, rows, size = sum(map(len, out.values())), int(own["rows"].sum()), int(own["bytes"].sum())
            lines[name].append([engines[name].epoch, came, went, seconds, rows, size])
    columns = ["epoch", "changes", "emitted", "seconds", "rows", "bytes"]
    return {name: pd.DataFrame(found, columns=columns) for name, found in lines.items()}


def _size(table: Any) -> int:
    return len(table) if isinstance(table, Changes) or hasattr(table, "__len__") else len(list(table))


def keys(engine: Engine, view: View) -> list[tuple[Any, ...]]:
    """All keys of a view that have rows in ``engine`` (under partial state: the filled ones), in order."""
    whole = engine.read(view.name)
    if not view.key:
        return [()]
    columns = whole.iloc[:, list(view.key)].drop_duplicates()
    return [tuple(None if pd.isna(v) else v for v in row) for row in columns.astype(object).itertuples(index=False)]


def zipf(keys: Sequence[Any], count: int, skew: float = 1.1, seed: int = 7) -> list[Any]:
    """Draw ``count`` keys, the n-th key with a probability proportional to 1/n**skew; the seed fixes the result."""
    if not len(keys):
        raise Error("zipf: there are no keys to draw from.")
    weights = 1.0 / np.arange(1, len(keys) + 1, dtype=np.float64) ** skew
    drawn = np.random.default_rng(seed).choice(len(keys), size=count, p=weights / weights.sum())
    return [keys[i] for i in drawn]


def reads(engine: Engine, view: str, keys: Iterable[Any]) -> pd.DataFrame:
    """Read keys one by one. Columns: key, hit (False: the key was a hole and caused an upquery), rows, seconds."""
    lines = []
    for key in keys:
        engine.trace.clear()
        found, seconds = timed(lambda key=key: engine.read(view, key=key))  # type: ignore[misc]
        hole = any(e.source == view for e in engine.trace.named("hole"))
        lines.append([key, not hole, len(found), seconds])
    return pd.DataFrame(lines, columns=["key", "hit", "rows", "seconds"]).astype({"hit": "bool"})


def hit_rates(
    views: Sequence[View], epochs: Iterable[Any], view: str, keys: Sequence[Any], budgets: Iterable[int]
) -> pd.DataFrame:
    """A partial engine for each budget (``max_rows``): the same epochs, then the same reads with nothing filled.

    Columns: budget, reads, hits, rate (0 to 1), held (rows at the end, without base tables).
    """
    epochs, lines = list(epochs), []
    for budget in budgets:
        with ss.engine("partial", views, max_rows=budget) as engine:
            for each in epochs:
                engine.step(each[1] if isinstance(each, tuple) else each)
            told = reads(engine, view, keys)
            held = int(engine.state().query("not base")["rows"].sum())
            hits = int(told["hit"].sum())
            lines.append([budget, len(told), hits, hits / max(1, len(told)), held])
    return pd.DataFrame(lines, columns=["budget", "reads", "hits", "rate", "held"])


def recovery(
    engine: Engine, views: Sequence[View], epochs: Iterable[Any], folder: str | Path
) -> tuple[dict[str, Engine], pd.DataFrame]:
    """Recover an engine in two ways: restore its checkpoint, and replay every epoch into a new engine.

    Returns the two engines by way, and a frame with the columns way, seconds, rows (read to recover). The checkpoint is
    written to ``folder``, which must be new or empty, before the measurement starts.
    """
    epochs = [each[1] if isinstance(each, tuple) else each for each in epochs]
    engine.checkpoint(folder)
    restored, first = timed(lambda: ss.restore(folder), ROUNDS)

    def replay() -> Engine:
        fresh = ss.engine(engine.kind, views)
        for inputs in epochs:
            fresh.step(inputs)
        return fresh

    replayed, second = timed(replay, ROUNDS)
    back = {"restore": restored, "replay": replayed}
    rows = [int(restored.state()["rows"].sum()), sum(_size(t) for inputs in epochs for t in inputs.values())]
    table = pd.DataFrame({"way": list(back), "seconds": [first, second], "rows": rows})
    return back, table


def side_by_side(view: View, epochs: Iterable[Any], asked: int = 300, skew: float = 1.1) -> pd.DataFrame:
    """One view under each strategy: the epochs, then ``asked`` point reads of its keys, drawn by Zipf's law.

    One row for each strategy. Columns: emitted (rows), rows and bytes (own state after the reads), epoch ms (median),
    read ms (median), hits (share), first read ms (median of the misses), refused (the error, if a strategy refuses the
    view).
    """
    lines: dict[str, dict[str, Any]] = {}
    engines: dict[str, Engine] = {}
    for kind in ss.KINDS:
        try:
            engines[kind], lines[kind] = ss.engine(kind, [view]), {"refused": ""}
        except Error as error:
            lines[kind] = {"refused": str(error)}
    runs = play_all(engines, epochs)
    # Under partial state nothing is filled yet, so take the keys of the first engine that stores all of them.
    found = keys(next(iter(engines.values())), view)
    wanted = zipf(found, asked, skew) if found else []
    for kind, engine in engines.items():
        run, told = runs[kind], reads(engine, view.name, wanted)
        own = engine.state().query("not base")
        lines[kind] = {
            "emitted": int(run["emitted"].sum()),
            "rows": int(own["rows"].sum()),
            "bytes": int(own["bytes"].sum()),
            "epoch ms": 1000 * run["seconds"].median(),
            "read ms": 1000 * told["seconds"].median(),
            "hits": told["hit"].mean(),
            "first read ms": 1000 * told.loc[~told["hit"], "seconds"].median(),
            **lines[kind],
        }
        engine.close()
    return pd.DataFrame.from_dict(lines, orient="index")


__all__ = [
    "hit_rates",
    "keys",
    "play",
    "play_all",
    "reads",
    "recovery",
    "scale",
    "side_by_side",
    "slices",
    "tables",
    "timed",
    "zipf",
]
