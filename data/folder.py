"""The folder of a shop: writing it, reading it epoch by epoch, and checking it against its manifest.

    out/manifest.json                        parameters, columns; rows and checksum of each file
    out/info/epoch=00001/part.parquet        one file for each relation and epoch, empty ones included
    out/visit/epoch=00001/part.parquet       product, user, length, diff

Spark's file source reads files in the order of their modification times, and files with equal times in any order. So
the files of an epoch get a time two seconds after those of the epoch before. A copy may lose these times; `stamp_all`
sets them again.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from sharedstate_lite.errors import Error

from .files import checked_path
from .rows import ARROW, RELATIONS

pc: Any = pyarrow.compute  # its stubs have no comparison with a scalar

FORMAT = "sharedstate-lite shop, 1"
STEP_SECONDS = 2
"""Seconds between the files of two epochs: the coarsest file systems store times in steps of two seconds."""

_MANIFEST = "manifest.json"


def part(folder: Path, relation: str, epoch: int) -> Path:
    """The file of a relation's changes in an epoch."""
    return folder / relation / f"epoch={epoch:05d}" / "part.parquet"


def epochs(folder: str | os.PathLike[str]) -> Iterator[tuple[int, dict[str, pa.Table]]]:
    """A made folder, epoch by epoch: (epoch, {relation: Arrow table with ``diff``}), as ``step`` takes them.

    Every file is compared with the manifest. Raises Error with the file's name: for an added file at the call, for a
    missing or changed one in its epoch. Memory holds one epoch at a time.
    """
    root = checked_path(folder)
    manifest = read(root)
    _refuse_added(root, manifest)
    return ((entry["epoch"], {r: _read(root, r, entry) for r in RELATIONS}) for entry in manifest["epochs"])


def check(folder: Path) -> dict[str, Any]:
    """Compare every file with the manifest, check the order of their times, and return the manifest.

    Raises Error with the name of the first missing, changed, added or wrongly timed file.
    """
    manifest = read(folder)
    latest = 0.0
    for entry in manifest["epochs"]:
        files = [part(folder, relation, entry["epoch"]) for relation in RELATIONS]
        for relation in RELATIONS:
            _read(folder, relation, entry)
        times = [file.stat().st_mtime for file in files]
        if min(times) <= latest:
            raise Error(
                f"{files[0]}: its time is not after that of the epoch before, so a stream may read it too early; "
                "python -m data check FOLDER --stamp sets the times again"
            )
        latest = max(times)
    _refuse_added(folder, manifest)
    return manifest


def _refuse_added(root: Path, manifest: Mapping[str, Any]) -> None:
    known = {part(root, relation, entry["epoch"]) for entry in manifest["epochs"] for relation in RELATIONS}
    for path in sorted(root.rglob("*")):
        if path.is_file() and path not in known and path != root / _MANIFEST:
            raise Error(f"{path}: this file is not in the manifest, but a stream would read it; move it away")


def stamp(folder: Path, epoch: int, count: int, now: float) -> None:
    """Set the times of one epoch's files; those of epoch ``count``, the last, get the time ``now``."""
    at = int(now) - STEP_SECONDS * (count - epoch)
    for relation in RELATIONS:
        file = part(folder, relation, epoch)
        try:
            os.utime(file, (at, at))
        except OSError as error:
            # The system's error has no file name.
            raise OSError(error.errno, error.strerror, str(file)) from error


def stamp_all(folder: Path) -> None:
    """Set the times of all files again, after a copy that lost them."""
    now = time.time()
    numbers = [entry["epoch"] for entry in read(folder)["epochs"]]
    try:
        for epoch in numbers:
            stamp(folder, epoch, len(numbers), now)
    except FileNotFoundError as error:
        raise Error(f"{error.filename}: it is in the manifest but missing; make the folder again") from error
    except OSError as error:
        raise Error(
            f"{error.filename}: its time cannot be set ({error.strerror}); copy the folder and stamp the copy"
        ) from error


def write(root: Path, relation: str, epoch: int, rows: pa.Table) -> dict[str, Any]:
    """Write one file atomically and return its entry in the manifest: rows, retractions, checksum."""
    target = part(root, relation, epoch)
    # No parents: if the root was removed meanwhile, this fails.
    target.parent.mkdir(exist_ok=True)
    unfinished = target.with_name(".unfinished")
    pyarrow.parquet.write_table(rows, unfinished)
    unfinished.replace(target)
    retractions = pc.sum(pc.less(rows["diff"], 0)).as_py() or 0
    return {"rows": rows.num_rows, "retractions": retractions, "checksum": checksum(rows)}


def conclude(root: Path, parameters: Mapping[str, Any], files: list[tuple[int, str, dict[str, Any]]]) -> dict[str, Any]:
    """Write the manifest, after all files (epoch, relation, entry), and return it."""
    entries: dict[int, dict[str, Any]] = {}
    for epoch, relation, said in sorted(files, key=lambda file: file[:2]):
        entries.setdefault(epoch, {"epoch": epoch})[relation] = said
    manifest = {
        "format": FORMAT,
        "parameters": dict(parameters),
        "relations": {name: {field.name: str(field.type) for field in ARROW[name]} for name in RELATIONS},
        **_sums(list(entries.values())),
        "epochs": list(entries.values()),
    }
    unfinished = root / f".{_MANIFEST}"
    unfinished.write_text(json.dumps(manifest, indent=1) + "\n")
    unfinished.replace(root / _MANIFEST)
    return manifest


def _sums(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """The totals of a manifest's epochs: rows and retractions of each relation, and one checksum."""
    whole = hashlib.blake2b(digest_size=16)
    for entry in entries:
        for relation in RELATIONS:
            whole.update(bytes.fromhex(entry[relation]["checksum"]))
    counts = ("rows", "retractions")
    totals = {name: {count: sum(entry[name][count] for entry in entries) for count in counts} for name in RELATIONS}
    return {"totals": totals, "checksum": whole.hexdigest()}


def read(root: Path) -> dict[str, Any]:
    """The manifest of a made folder. Raises Error if it is missing, damaged or of another format."""
    path = root / _MANIFEST
    try:
        manifest = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise Error(f"{root}: it has no {_MANIFEST}; make a folder with python -m data make") from error
    except NotADirectoryError as error:
        raise Error(f"{root}: it is a file; name the folder with {_MANIFEST}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise Error(f"{path}: it cannot be read ({error}); make the folder again") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise Error(f"{path}: its format is not {FORMAT!r}; make the folder again")
    try:
        sums = _sums(manifest["epochs"])
        numbers = [entry["epoch"] for entry in manifest["epochs"]]
    except (KeyError, TypeError, ValueError) as error:
        raise Error(f"{path}: it was changed ({error!r}); make the folder again") from error
    # The files are compared with their entries, and the entries with the totals.
    if numbers != list(range(1, len(numbers) + 1)) or any(manifest.get(name) != sums[name] for name in sums):
        raise Error(f"{path}: its epochs do not match its totals; make the folder again")
    return manifest


def checksum(rows: pa.Table) -> str:
    """A hash of the values in their order, independent of chunks and file format; 32 hex digits."""
    out = hashlib.blake2b(digest_size=16)
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        out.update(f"{name} {column.type} {len(column)};".encode())
        if not pa.types.is_string(column.type):
            out.update(pc.fill_null(column.cast(pa.int64()), -(2**63)).to_numpy().astype("<i8").tobytes())
            continue
        out.update(pc.fill_null(pc.binary_length(column), -1).to_numpy().astype("<i4").tobytes())
        for chunk in column.chunks:
            _, offsets, text = cast(list[Any], chunk.buffers())
            if text is not None and len(chunk):
                ends = np.frombuffer(offsets, dtype=np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
                out.update(memoryview(text)[ends[0] : ends[-1]])
    return out.hexdigest()


def _read(root: Path, relation: str, entry: Mapping[str, Any]) -> pa.Table:
    path = part(root, relation, entry["epoch"])
    try:
        # read_table would add the folder's name as a column.
        rows = pyarrow.parquet.ParquetFile(path).read()
    except FileNotFoundError as error:
        raise Error(f"{path}: it is in the manifest but missing; make the folder again") from error
    except (OSError, pa.ArrowException) as error:
        raise Error(f"{path}: it cannot be read ({str(error).splitlines()[0]}); make the folder again") from error
    if rows.num_rows != entry[relation]["rows"]:
        raise Error(f"{path}: it has {rows.num_rows} rows instead of {entry[relation]['rows']}; make the folder again")
    if rows.schema != ARROW[relation] or checksum(rows) != entry[relation]["checksum"]:
        raise Error(f"{path}: its rows are not those in the manifest; make the folder again")
    return rows
