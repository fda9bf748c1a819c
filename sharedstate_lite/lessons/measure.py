"""Measures engines from the outside, in seconds, rows, bytes and hits.

    scale         chooses one of two sizes, based on the environment variable SCALE
    slices        splits tables into epochs
    tables        merges epochs into tables
    bills         lists what engines store: durable inputs, working state and cached answers, in rows and bytes
    one_job       is the bill of views of full engines in one job, which runs equal joins once
    tables_only   is the bill of views that share only the arrangements of tables
    play          steps an engine through epochs
    play_all      steps several engines through the same epochs in turn
    reads         reads keys, with the seconds and whether each key was filled
    keys          lists all keys of a view
    zipf          draws keys from a Zipf distribution
    hit_rates     measures the hits of partial engines with different budgets
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
from ..dataflow.full import Full
from ..dataflow.operators import JoinCore
from ..engine.engine import Engine
from ..engine.state_tables import BILL, DURABLE, bill_table
from ..errors import Error
from ..plan.nodes import Node
from ..plan.view import View

T = TypeVar("T")
Inputs = Mapping[str, Any]
SCALES = ("small", "full")
BILLED = {f"{short} {unit}": (name, unit) for unit in ("rows", "bytes") for short, name in BILL.items()}
"""Where each column of :func:`bills` stands in ``engine.bill()``."""


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


def bills(engines: Mapping[Any, Engine]) -> pd.DataFrame:
    """Return what engines store, as one row for each: durable, working and cached rows, and then bytes.

    See ``engine.bill()`` for these three. The bytes do not include the strings.
    """
    return pd.DataFrame.from_dict({name: _bill(engine.bill()) for name, engine in engines.items()}, orient="index")


def one_job(engines: Iterable[Engine]) -> dict[str, int]:
    """Return what the views of several full engines would store in one job, which runs equal joins once.

    Each engine has one view. Two joins are equal if they read the same columns of the same tables by the same key.
    Flink reuses such parts of a plan within a job. The keys of the result are the columns of :func:`bills`.
    """
    states, known = [], set[Node]()
    for engine in engines:
        joins = [o for o in engine.operators if isinstance(o, JoinCore)] if isinstance(engine, Full) else []
        again = {side.name for join in joins if join.node in known for _, side in join.owned}
        known |= {join.node for join in joins}
        state = engine.state()
        states.append(state[~state["operator"].isin(again)])
    state = pd.concat(states, ignore_index=True)
    tables = state["bill"] == DURABLE
    return _bill(bill_table(pd.concat([state[tables].drop_duplicates("relation"), state[~tables]])))


def tables_only(engines: Iterable[Engine]) -> dict[str, int]:
    """Return what the views of several shared engines would store if they shared only the arrangements of tables.

    Each engine has one view. An arrangement of a table counts once for each key. Everything else counts for each view,
    joined rows included, as in Materialize if the tables are indexed. The keys of the result are the columns of
    :func:`bills`.
    """
    states, relations = [], set[str]()
    for engine in engines:
        states.append(engine.state())
        relations |= engine.catalog.relations.keys()
    state = pd.concat(states, ignore_index=True)
    tables = state[state["relation"].isin(relations)].drop_duplicates("operator")
    # A table is a durable input once. Its other arrangements are working state.
    again = tables.duplicated("relation")
    tables.loc[again, "bill"] = tables.loc[again, "bill"].str.replace(r"durable( \+ )?", "", regex=True)
    return _bill(bill_table(pd.concat([tables, state[~state["relation"].isin(relations)]])))


def _bill(bill: pd.DataFrame) -> dict[str, int]:
    """Return what ``engine.bill()`` returned in one line."""
    return {column: int(bill[unit][name]) for column, (name, unit) in BILLED.items()}


def play(engine: Engine, epochs: Iterable[Inputs | tuple[int, Inputs]]) -> pd.DataFrame:
    """Step an engine through epochs, and return one row for each.

    An epoch is a mapping, or a pair as returned by ``data.generate``. The columns are epoch, changes (the number of
    input rows), emitted (the number of output rows of all views), seconds (of ``step``), and those of :func:`bills`
    (stored after the epoch).
    """
    return play_all({"": engine}, epochs)[""]


def play_all(engines: Mapping[str, Engine], epochs: Iterable[Inputs | tuple[int, Inputs]]) -> dict[str, pd.DataFrame]:
    """Step several engines through the same epochs, and return for each a table like that of :func:`play`.

    Each epoch is processed by all engines in turn, starting with a different engine each time. Therefore, other load on
    the machine affects all engines equally.
    """
    names = list(engines)
    lines: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for number, each in enumerate(epochs):
        inputs = each[1] if isinstance(each, tuple) else each
        came, turn = sum(map(_size, inputs.values())), number % len(names)
        for name in [*names[turn:], *names[:turn]]:
            out, seconds = timed(lambda e=engines[name], i=inputs: e.step(i))  # type: ignore[misc]
            line = {"epoch": engines[name].epoch, "changes": came, "emitted": sum(map(len, out.values()))}
            lines[name].append(line | {"seconds": seconds} | _bill(engines[name].bill()))
    columns = ["epoch", "changes", "emitted", "seconds", *BILLED]
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
    views: Sequence[View], epochs: Iterable[Any], view: str, keys: Sequence[Any], budgets: Iterable[int], warm: int = 0
) -> pd.DataFrame:
    """Measure the hits of a partial engine for each budget, which is the engine's option ``max_rows``.

    Every engine processes the same epochs and then the same reads. At the first read, no key is filled; the first
    ``warm`` reads do not count. The columns are budget, reads, hits, rate (0 to 1), and cached (the number of rows of
    cached answers at the end).
    """
    epochs, lines = list(epochs), []
    for budget in budgets:
        with ss.engine("partial", views, max_rows=budget) as engine:
            for each in epochs:
                engine.step(each[1] if isinstance(each, tuple) else each)
            told = reads(engine, view, keys)[warm:]
            cached = _bill(engine.bill())["cached rows"]
            hits = int(told["hit"].sum())
            lines.append([budget, len(told), hits, hits / max(1, len(told)), cached])
    return pd.DataFrame(lines, columns=["budget", "reads", "hits", "rate", "cached"])


__all__ = [
    "bills",
    "hit_rates",
    "keys",
    "one_job",
    "play",
    "play_all",
    "reads",
    "scale",
    "slices",
    "tables",
    "tables_only",
    "timed",
    "zipf",
]
