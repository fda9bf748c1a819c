"""Helpers for streams of partial state: the keys that tests look up, and the changes and rows of one process."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from shopping import EPOCHS, arrow, bag, rows, views

import sharedstate_lite as ss
from sharedstate_lite.spark.partial.job import PartialJob

WAIT = 180
KEYS = {"result": ["c1", "c2"], "counts": ["u1", "u9"]}
"""The keys that are looked up after the first epoch; the third epoch moves a product between the two categories."""


def looked_up(engine: Any) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of the keys, of an engine or of a stream."""
    if isinstance(engine, PartialJob):
        return {view: rows(engine.lookup(view, keys)) for view, keys in KEYS.items()}
    return {view: [row for key in keys for row in rows(engine.read(view, key=key))] for view, keys in KEYS.items()}


def bags(changes: dict[str, ss.Changes]) -> dict[str, Counter[Any]]:
    """The changes of an epoch: view -> {row: diff}."""
    return {name: bag(each) for name, each in changes.items()}


def here() -> tuple[list[dict[str, Counter[Any]]], dict[str, list[tuple[Any, ...]]]]:
    """From an engine in one process: the changes of each epoch, and the keys' rows at the end."""
    with ss.engine("partial", views()) as engine:
        out = [bags(engine.step(EPOCHS[0]))]
        looked_up(engine)
        out += [bags(engine.step(epoch)) for epoch in EPOCHS[1:]]
        return out, looked_up(engine)


def appear(folder: Path, name: str, pairs: list[Any] | bytes) -> Path:
    """A file of visits that appears complete in a folder that a running stream reads."""
    aside, file = folder.with_name(f"{name} unfinished"), folder / name
    if isinstance(pairs, bytes):
        aside.write_bytes(pairs)
    else:
        pq.write_table(arrow("visit", pairs), aside)
    aside.replace(file)
    return file
