"""The record on disk: Parquet for the tables, text files for the logs, and JSON for the rest.

A loaded record equals the one that was saved, except that only the end of a very long log is saved.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import RecordError
from ..folders import paths
from ..terms import POWER_CUT
from .tables import SCHEMA, TEXT, Record, Table

VERSION = 1
LONGEST_LOG = 1_000_000
"""The maximum number of characters of a process's log that are saved."""


def _types(name: str) -> pa.Schema:
    kinds = {c: pa.string() if d == TEXT else pa.from_numpy_dtype(d) for c, d in SCHEMA[name].items()}
    return pa.schema(list(kinds.items()))


def save(record: Record, folder: Path) -> None:
    """Save the record to a folder, and replace any earlier record in it.

    run.json is removed first and written last. A folder without it is not a record, so an incomplete record is never
    judged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").unlink(missing_ok=True)
    for name, table in record.tables.items():
        types = _types(name)
        arrow = pa.Table.from_arrays(
            [pa.array(table[c], t) for c, t in zip(types.names, types.types, strict=True)], schema=types
        )
        pq.write_table(arrow, folder / f"{name}.parquet", compression="zstd")
    _write(folder / "exchanges.json", record.exchanges)
    logs = folder / "logs"
    logs.mkdir(exist_ok=True)
    for old in logs.glob("*.txt"):
        old.unlink()
    for name, text in record.logs.items():
        (logs / f"{name}.txt").write_text(text[-LONGEST_LOG:], encoding="utf-8", errors="replace", newline="")
    if record.powercut is not None:
        save(record.powercut, folder / POWER_CUT)
    _write(folder / "run.json.new", {"record": VERSION, **record.about})
    (folder / "run.json.new").replace(folder / "run.json")


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1, sort_keys=True, ensure_ascii=True) + "\n")


def load(folder: Path) -> Record:
    """Load a record. Raises RecordError if it is missing or damaged, or has another version."""
    try:
        about = json.loads((folder / "run.json").read_text())
        exchanges = json.loads((folder / "exchanges.json").read_text())
    except (OSError, ValueError) as error:
        raise RecordError(f"{folder} does not contain a record ({error}); give the report folder of a run") from error
    if not isinstance(about, dict) or about.pop("record", None) != VERSION:
        raise RecordError(f"{folder}: the version of the record is not {VERSION}; use the grader that wrote it")
    tables = {name: _read(folder, name) for name in SCHEMA}
    logs = {p.stem: p.read_bytes().decode(errors="replace") for p in sorted((folder / "logs").glob("*.txt"))}
    # Ignore the power cuts of an earlier run in the same folder.
    cut = load(folder / POWER_CUT) if "skipped" not in about.get(POWER_CUT, {"skipped": ""}) else None
    return Record(about, tables, exchanges, logs, cut)


def recorded(top: Path) -> list[Path]:
    """Return the folders at or below ``top`` that contain a record, sorted. Those of power cuts are left out."""
    found = {(top / path).parent for path in paths(top) if path.rpartition("/")[2] == "history.parquet"}
    return sorted(path for path in found if path.name != POWER_CUT or path.parent not in found)


def _read(folder: Path, name: str) -> Table:
    try:
        arrow = pq.read_table(folder / f"{name}.parquet")
    except (OSError, pa.ArrowException) as error:
        said = "it is missing" if isinstance(error, FileNotFoundError) else re.sub(r"\s+", " ", str(error))[:200]
        raise RecordError(f"{folder}/{name}.parquet cannot be read ({said}); use a complete record") from error
    if not arrow.schema.equals(_types(name)):
        raise RecordError(f"{folder}/{name}.parquet: its columns are not those in docs/grader.md; use another record")
    columns = {}
    for column, dtype in SCHEMA[name].items():
        values = arrow.column(column)
        columns[column] = np.array(values.to_pylist() if dtype == TEXT else values.to_numpy(), dtype=dtype)
    return Table(name, columns)
