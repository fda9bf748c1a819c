"""The record on disk: Parquet for the tables, text files for the logs, and JSON for the rest.

A loaded record equals the one that was saved, except that only the end of a very long log is saved. Records of
version 1 are read as well: `version_1` turns them into the present form.
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
from ..table import POWER_CUT
from . import version_1
from .notes import Exchange, SentWave, content, notes_from
from .tables import SCHEMA, TEXT, Column, Record, Table

VERSION = 2
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
        columns = [_arrow(table[c], t) for c, t in zip(types.names, types.types, strict=True)]
        arrow = pa.Table.from_arrays(columns, schema=types)
        pq.write_table(arrow, folder / f"{name}.parquet", compression="zstd")
    _write(folder / "exchanges.json", [content(each) for each in record.exchanges])
    logs = folder / "logs"
    logs.mkdir(exist_ok=True)
    for old in logs.glob("*.txt"):
        old.unlink()
    for name, text in record.logs.items():
        (logs / f"{name}.txt").write_text(text[-LONGEST_LOG:], encoding="utf-8", errors="replace", newline="")
    if record.powercut is not None:
        save(record.powercut, folder / POWER_CUT)
    notes = {phase: content(each) for phase, each in record.phases.items()}
    run = {**record.about, "record": VERSION, "waves": [content(wave) for wave in record.waves], "phases": notes}
    _write(folder / "run.json.new", run)
    (folder / "run.json.new").replace(folder / "run.json")


def _arrow(column: Column, kind: pa.DataType) -> pa.Array[Any]:
    """Return a column for Arrow, made of buffers: `pa.array` would import pandas, which takes a second."""
    if column.dtype != TEXT:
        return pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(column.tobytes())])
    texts = [text.encode() for text in column]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(ends.tobytes()), pa.py_buffer(b"".join(texts)))


def _numpy(column: pa.Array[Any], dtype: np.dtype[Any]) -> Column:
    """Return a column of numbers; the other direction of `_arrow`. Raises ValueError if a number is missing."""
    if column.null_count:
        raise ValueError("a number is missing")
    if not len(column):
        return np.zeros(0, dtype=dtype)
    buffer: Any = column.buffers()[1]
    return np.frombuffer(buffer, dtype, len(column), column.offset * dtype.itemsize).copy()


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1, sort_keys=True, ensure_ascii=True) + "\n")


def load(folder: Path) -> Record:
    """Load a record. Raises RecordError if it is missing or damaged, or has another version."""
    try:
        about = json.loads((folder / "run.json").read_text())
        exchanges = json.loads((folder / "exchanges.json").read_text())
    except (OSError, ValueError) as error:
        raise RecordError(f"{folder} does not contain a record ({error}); give the report folder of a run") from error
    version = about.pop("record", None) if isinstance(about, dict) else None
    if version not in (1, VERSION):
        raise RecordError(f"{folder}: the version of the record is not 1 or {VERSION}; use the grader that wrote it")
    types = {name: _types(name) for name in SCHEMA}
    if version == 1:
        about, exchanges = version_1.mended(about, exchanges)
        types = {name: version_1.types(each) for name, each in types.items()}
    tables = {name: _read(folder, name, each) for name, each in types.items()}
    logs = {p.stem: p.read_bytes().decode(errors="replace") for p in sorted((folder / "logs").glob("*.txt"))}
    # Ignore the power cuts of an earlier run in the same folder.
    cut = load(folder / POWER_CUT) if "skipped" not in about.get(POWER_CUT, {"skipped": ""}) else None
    waves = [SentWave(**each) for each in about.pop("waves", [])]
    phases = {phase: notes_from(phase, each) for phase, each in about.pop("phases", {}).items()}
    return Record(about, tables, waves, phases, [Exchange(**each) for each in exchanges], logs, cut)


def recorded(top: Path) -> list[Path]:
    """Return the folders at or below ``top`` that contain a record, sorted. Those of power cuts are left out."""
    found = {(top / path).parent for path in paths(top) if path.rpartition("/")[2] == "history.parquet"}
    return sorted(path for path in found if path.name != POWER_CUT or path.parent not in found)


def _read(folder: Path, name: str, types: pa.Schema) -> Table:
    try:
        with pq.ParquetFile(folder / f"{name}.parquet") as file:  # pq.read_table would import pandas
            arrow = file.read()
    except (OSError, pa.ArrowException) as error:
        said = "it is missing" if isinstance(error, FileNotFoundError) else re.sub(r"\s+", " ", str(error))[:200]
        raise RecordError(f"{folder}/{name}.parquet cannot be read ({said}); use a complete record") from error
    if not arrow.schema.equals(types):
        raise RecordError(f"{folder}/{name}.parquet: its columns are not those in docs/grader.md; use another record")
    columns = {}
    for column, dtype in SCHEMA[name].items():
        values = arrow.column(column)
        if dtype == TEXT:
            texts: list[Any] = values.to_pylist()
            texts = texts if values.type == pa.string() else version_1.names(texts)
            columns[column] = np.array(texts, dtype=dtype)
        else:
            columns[column] = _numpy(values.combine_chunks(), dtype)
    return Table(name, columns)
