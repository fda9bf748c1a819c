"""Measures engines from the outside, in seconds, rows, bytes and hits.

    scale         chooses one of two sizes, based on the environment variable SCALE
    slices        splits tables into epochs
    tables        merges epochs into tables
    play          steps an engine through epochs
    play_all      steps several engines through the same epochs in turn
    reads         reads keys, with the seconds and whether each key was filled
    keys          lists all keys of a view
    zipf          draws keys from a Zipf distribution
    hit_rates     measures the hits of partial engines with different budgets
    side_by_side  compares one view under all three strategies
    timed         times a call

Rows, bytes and hits are the same in every run, but seconds depend on the machine. For measurements with warm-up,
repetition and separate processes, see ``bench/``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
import pandas as pd

import sharedstate_lite as ss

from ..changelog.changes import Changes
from ..engine.engine import Engine
from ..errors import Error
from ..plan.view import View
from .epochs import needed

T = TypeVar("T")
Inputs = Mapping[str, Any]
SCALES = ("small", "full")


def scale(small: T, full: T) -> T:
    """Return ``full`` if the environment variable SCALE is ``full``, and ``small`` if it is ``small`` or not set.

    Raises Error for any other value.
    """
    said = os.environ.get("SCALE", "") or SCALES[0]
    if said not in SCALES:
        raise Error(f"SCALE={said} is not supported. Set it to {' or '.join(SCALES)} before you start the notebook.")
    return small if said == SCALES[0] else full


def timed(do: Callable[[], T], rounds: int = 1) -> tuple[T, float]:
    """Call ``do`` ``rounds`` times, and return its last result and the median of the seconds."""
    seconds = []
    for _ in range(max(1, rounds)):
        began = perf_counter()
        done = do()
        seconds.append(perf_counter() - began)
    return done, float(np.median(seconds))


def slices(tables: Mapping[str, pd.DataFrame], epochs: int) -> list[Inputs]:
    """Split tables into ``epochs`` inputs. The n-th input contains the n-th of ``epochs`` equal parts of each table.

    Rows keep their order, so a row always comes before its retraction. Raises Error if ``epochs`` is less than 1.
    """
    if epochs < 1:
        raise Error(f"epochs={epochs} is too small. Pass 1 or more.")
    out: list[Inputs] = []
    for n in range(epochs):
        piece = {r: t.iloc[len(t) * n // epochs : len(t) * (n + 1) // epochs] for r, t in tables.items()}
        out.append({r: t if "diff" in t else t.assign(diff=1) for r, t in piece.items()})
    return out


def tables(epochs: Iterable[Any]) -> dict[str, pd.DataFrame]:
    """Merge epochs of data frames or Arrow tables, and return the rows of each relation with their total diff."""
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
    """Step an engine through epochs, and return one row for each.

    An epoch is a mapping, or a pair as returned by ``data.generate``. The columns are epoch, changes (the number of
    input rows), emitted (the number of output rows of all views), seconds (of ``step``), and rows and bytes (stored
    after the epoch, without base tables).
    """
    return play_all({"": engine}, epochs)[""]


def play_all(engines: Mapping[str, Engine], epochs: Iterable[Inputs | tuple[int, Inputs]]) -> dict[str, pd.DataFrame]:
    """Step several engines through the same epochs, and return for each a table like that of :func:`play`.

    Each epoch is processed by all engines in turn, starting with a different engine each time. Therefore, other load on
    the machine affects all engines equally.
    """
    names = list(engines)
    lines: dict[str, list[list[Any]]] = {name: [] for name in names}
    for number, each in enumerate(epochs):
        inputs = each[1] if isinstance(each, tuple) else each
        came, turn = sum(map(_size, inputs.values())), number % len(names)
        for name in [*names[turn:], *names[:turn]]:
            out, seconds = timed(lambda e=engines[name], i=inputs: e.step(i))  # type: ignore[misc]
            state = engines[name].state()
            own = state[state["bill"] != "durable"]
            went, rows, size = sum(map(len, out.values())), int(own["rows"].sum()), int(own["bytes"].sum())
            lines[name].append([engines[name].epoch, came, went, seconds, rows, size])
    columns = ["epoch", "changes", "emitted", "seconds", "rows", "bytes"]
    return {name: pd.DataFrame(found, columns=columns) for name, found in lines.items()}


def _size(table: Any) -> int:
    return len(table) if isinstance(table, Changes) or hasattr(table, "__len__") else len(list(table))


def keys(engine: Engine, view: View) -> list[tuple[Any, ...]]:
    """Return all keys of a view that have rows in ``engine``, in order. Under partial state, these are filled keys."""
    whole = engine.read(view.name)
    if not view.key:
        return [()]
    columns = whole.iloc[:, list(view.key)].drop_duplicates()
    return [tuple(None if pd.isna(v) else v for v in row) for row in columns.astype(object).itertuples(index=False)]


def zipf(keys: Sequence[Any], count: int, skew: float = 1.1, seed: int = 7) -> list[Any]:
    """Draw ``count`` keys at random. The probability of the n-th key is proportional to 1/n**skew.

    The same seed always yields the same result. Raises Error if ``keys`` is empty.
    """
    if not len(keys):
        raise Error("zipf: there are no keys to draw from. Pass at least one key.")
    weights = 1.0 / np.arange(1, len(keys) + 1, dtype=np.float64) ** skew
    drawn = np.random.default_rng(seed).choice(len(keys), size=count, p=weights / weights.sum())
    return [keys[i] for i in drawn]


def reads(engine: Engine, view: str, keys: Iterable[Any]) -> pd.DataFrame:
    """Read keys one at a time, and return one row for each, with the columns key, hit, rows and seconds.

    ``hit`` is False if the key was a hole, so that the read sent an upquery. ``rows`` is the number of rows returned.
    """
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
    """Measure the hits of a partial engine for each budget, which is the engine's option ``max_rows``.

    Every engine processes the same epochs and then the same reads. At the first read, no key is filled. The columns are
    budget, reads, hits, rate (0 to 1), and held (the number of rows stored at the end, without base tables).
    """
    epochs, lines = list(epochs), []
    for budget in budgets:
        with ss.engine("partial", views, max_rows=budget) as engine:
            for each in epochs:
                engine.step(each[1] if isinstance(each, tuple) else each)
            told = reads(engine, view, keys)
            held = int(engine.bill()["rows"]["cached answers"])
            hits = int(told["hit"].sum())
            lines.append([budget, len(told), hits, hits / max(1, len(told)), held])
    return pd.DataFrame(lines, columns=["budget", "reads", "hits", "rate", "held"])


def side_by_side(view: View, epochs: Iterable[Any], asked: int = 300, skew: float = 1.1) -> pd.DataFrame:
    """Run one view under each strategy, and return one row per strategy.

    Each engine processes the epochs and then ``asked`` point reads, whose keys are drawn from a Zipf distribution. The
    columns are emitted (the number of rows), rows (what the strategy needs after the reads, see `epochs.needed`), epoch
    ms (median), read ms (median), hits (the fraction of reads), first read ms (the median over the misses), and refused
    (the error if the strategy does not support the view).
    """
    lines: dict[str, dict[str, Any]] = {}
    engines: dict[str, Engine] = {}
    for kind in ss.KINDS:
        try:
            engines[kind], lines[kind] = ss.engine(kind, [view]), {"refused": ""}
        except Error as error:
            lines[kind] = {"refused": str(error)}
    runs = play_all(engines, epochs)
    # Under partial state, no key is filled yet, so use the keys of an engine that stores all of them.
    found = keys(next(iter(engines.values())), view)
    wanted = zipf(found, asked, skew) if found else []
    for kind, engine in engines.items():
        run, told = runs[kind], reads(engine, view.name, wanted)
        lines[kind] = {
            "emitted": int(run["emitted"].sum()),
            "rows": int(needed(engine)["rows"].sum()),
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
    "scale",
    "side_by_side",
    "slices",
    "tables",
    "timed",
    "zipf",
]
